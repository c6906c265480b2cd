//! `PYTORCH_CUDA_ALLOC_CONF` (`PYTORCH_ALLOC_CONF` since torch 2.9), read as PyTorch reads it.
//!
//! Source: `c10/core/AllocatorConfig.cpp`. The text is cut at `,` `:` `[` `]`, and blanks are
//! dropped. An option that is not named has its default. If an option is named twice, the last one
//! counts.

use super::config::{Config, minor_version};

/// The variable, and the key under which a snapshot keeps its text.
pub const VARIABLE: &str = "PYTORCH_CUDA_ALLOC_CONF";

const MIB: u64 = 1 << 20;

/// Why a text is not a valid setting of PyTorch's allocator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConf {
    /// PyTorch knows no such option.
    #[error("`{0}` is no option of PyTorch's allocator: known are {known}", known = known())]
    Unknown(String),
    /// The option cannot have this value.
    #[error("{option} is {given}, but must be {allowed}")]
    Value {
        /// The option.
        option: &'static str,
        /// The value in the text.
        given: String,
        /// The values that are allowed.
        allowed: &'static str,
    },
    /// A required character is missing.
    #[error("expected `{expected}` after `{after}`")]
    Expected {
        /// The character.
        expected: char,
        /// The text before it.
        after: String,
    },
    /// PyTorch accepts it, but Tidemark cannot compute what would happen then.
    #[error("{option} cannot be computed here: {why}")]
    Beyond {
        /// The option.
        option: &'static str,
        /// Why not, and what to do.
        why: &'static str,
    },
}

/// Options that change where blocks lie.
const OPTIONS: [&str; 6] = [
    "max_split_size_mb",
    "roundup_power2_divisions",
    "garbage_collection_threshold",
    "expandable_segments",
    "max_non_split_rounding_mb",
    "large_segment_size_mb",
];

/// Options that do not change anything that is computed here.
const WITHOUT_EFFECT: [&str; 11] = [
    "backend",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb",
    "graph_capture_record_stream_reuse",
];

/// Whether an option changes nothing of the device's memory.
pub fn is_without_effect(option: &str) -> bool {
    WITHOUT_EFFECT.contains(&option)
}

fn known() -> String {
    OPTIONS.join(", ")
}

/// The rules that a text sets under a version of torch, such as `2.10 to 2.11`; an empty text sets
/// the defaults.
///
/// # Errors
/// [`BadConf`], with the option and the allowed values.
pub fn parse(text: &str, torch: Option<&str>) -> Result<Config, BadConf> {
    let tokens = tokens(text);
    let mut reader = Reader::of(&tokens, torch);
    let mut config = Config::default();
    while let Some(option) = reader.take() {
        reader.option(option, &mut config)?;
        if reader.next < tokens.len() {
            reader.expect(',')?;
        }
    }
    // PyTorch compares the two while it reads, so there the order of the options decides whether it
    // complains. Here the order does not matter.
    match config
        .max_split_size
        .is_some_and(|max| max < config.large_segment)
    {
        true => Err(BadConf::Value {
            option: "max_split_size_mb",
            given: "smaller than large_segment_size_mb".to_owned(),
            allowed: "at least as large",
        }),
        false => Ok(config),
    }
}

/// The rules of a text that PyTorch has accepted. What cannot be read here changes nothing; it may
/// be an option of a later version.
pub fn parse_accepted(text: &str, torch: Option<&str>) -> Config {
    let tokens = tokens(text);
    let mut reader = Reader::of(&tokens, torch);
    let mut config = Config::default();
    while let Some(option) = reader.take() {
        let mut with = config.clone();
        let begin = reader.next;
        match reader.option(option, &mut with) {
            Ok(()) => config = with,
            Err(_) => reader.next = begin,
        }
        reader.skip_option();
    }
    config
}

/// The text that sets these rules, without what has its default; [`parse`] reads it back.
pub fn text(config: &Config) -> String {
    let default = Config::default();
    let mib = |bytes: u64| (bytes / MIB).to_string();
    let split = config.max_split_size.map(mib);
    let threshold = config.garbage_collection_threshold;
    let divisions = config.roundup_power2_divisions;
    let rounding = config.max_non_split_rounding;
    let segment = config.large_segment;
    let values = [
        split,
        (divisions != default.roundup_power2_divisions).then(|| divisions_text(&divisions)),
        (threshold > 0.0).then(|| threshold.to_string()),
        config.expandable_segments.then(|| "True".to_owned()),
        (rounding != default.max_non_split_rounding).then(|| mib(rounding)),
        (segment != default.large_segment).then(|| mib(segment)),
    ];
    let named = OPTIONS.iter().zip(values);
    let named = named.filter_map(|(option, value)| Some(format!("{option}:{}", value?)));
    named.collect::<Vec<_>>().join(",")
}

/// One number, or a list of the sizes from the last one with the first number to the first one with
/// the last number.
fn divisions_text(all: &[u64; 16]) -> String {
    let from = all.iter().take_while(|n| **n == all[0]).count() - 1;
    let to = 16 - all.iter().rev().take_while(|n| **n == all[15]).count();
    if to == 0 {
        return all[0].to_string();
    }
    let sizes = (from..=to).map(|at| format!("{}:{}", 1_u64 << at, all[at]));
    let rest = (to < 15).then(|| format!(">:{}", all[to]));
    let entries: Vec<String> = sizes.chain(rest).collect();
    format!("[{}]", entries.join(","))
}

/// Words, and the punctuation between them.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    for c in text.chars().filter(|c| *c != ' ') {
        if matches!(c, ',' | ':' | '[' | ']') {
            if !word.is_empty() {
                tokens.push(std::mem::take(&mut word));
            }
            tokens.push(c.to_string());
        } else {
            word.push(c);
        }
    }
    if !word.is_empty() {
        tokens.push(word);
    }
    tokens
}

struct Reader<'a> {
    tokens: &'a [String],
    next: usize,
    /// Whether `>` in a list stands for the sizes after the last one that was named. Up to torch
    /// 2.9 it stands for that one, too.
    rest_follows: bool,
}

/// The first minor version of torch 2 in which `c10/core/AllocatorConfig.cpp` reads all of the text
/// for CUDA, too.
const COMMON_CONFIG: u32 = 10;

impl<'a> Reader<'a> {
    fn of(tokens: &'a [String], torch: Option<&str>) -> Reader<'a> {
        Reader {
            tokens,
            next: 0,
            rest_follows: minor_version(torch).is_some_and(|minor| minor >= COMMON_CONFIG),
        }
    }

    /// Goes on behind the comma that ends an option.
    fn skip_option(&mut self) {
        let mut depth = 0_i32;
        while let Some(token) = self.take() {
            match token {
                "[" => depth += 1,
                "]" => depth -= 1,
                "," if depth <= 0 => return,
                _ => {}
            }
        }
    }

    fn take(&mut self) -> Option<&'a str> {
        let token = self.tokens.get(self.next)?;
        self.next += 1;
        Some(token)
    }

    fn expect(&mut self, expected: char) -> Result<(), BadConf> {
        let found = self.tokens.get(self.next).map(String::as_str);
        if found.is_some_and(|token| token.len() == 1 && token.starts_with(expected)) {
            self.next += 1;
            return Ok(());
        }
        let before = self.next.checked_sub(1).and_then(|at| self.tokens.get(at));
        Err(BadConf::Expected {
            expected,
            after: before.cloned().unwrap_or_default(),
        })
    }

    fn option(&mut self, option: &str, config: &mut Config) -> Result<(), BadConf> {
        let known = OPTIONS.iter().chain(&WITHOUT_EFFECT);
        let beyond = ["per_process_memory_fraction", "throw_on_cudamalloc_oom"];
        if !known.chain(&beyond).any(|name| *name == option) {
            return Err(BadConf::Unknown(option.to_owned()));
        }
        self.expect(':')?;
        match option {
            "max_split_size_mb" => config.max_split_size = Some(self.mebibytes(OPTIONS[0])?),
            "roundup_power2_divisions" => self.divisions(config)?,
            "garbage_collection_threshold" => {
                config.garbage_collection_threshold = self.threshold()?;
            }
            "expandable_segments" => config.expandable_segments = self.truth()?,
            "max_non_split_rounding_mb" => {
                config.max_non_split_rounding = self.mebibytes(OPTIONS[4])?;
            }
            "large_segment_size_mb" => config.large_segment = self.large_segment()?,
            "backend" => self.backend()?,
            "per_process_memory_fraction" => self.fraction()?,
            "throw_on_cudamalloc_oom" => {
                return Err(BadConf::Beyond {
                    option: "throw_on_cudamalloc_oom",
                    why: "a recording does not show what a program does after a refusal",
                });
            }
            _ => {
                self.take();
            }
        }
        Ok(())
    }

    /// A value of an option, if `read` can make something of it.
    fn value<T>(
        &mut self,
        option: &'static str,
        allowed: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, BadConf> {
        let given = self.take().unwrap_or("");
        read(given).ok_or_else(|| BadConf::Value {
            option,
            given: match given {
                "" => "empty".to_owned(),
                given => format!("`{given}`"),
            },
            allowed,
        })
    }

    fn mebibytes(&mut self, option: &'static str) -> Result<u64, BadConf> {
        let allowed = "a whole number of MiB, 20 or more";
        self.value(option, allowed, |text| {
            let mib: u64 = text.parse().ok().filter(|mib| *mib >= 20)?;
            mib.checked_mul(MIB)
        })
    }

    fn large_segment(&mut self) -> Result<u64, BadConf> {
        let allowed = "a whole number of MiB, even, 2 or more";
        self.value(OPTIONS[5], allowed, |text| {
            let even = |mib: &u64| *mib >= 2 && mib.is_multiple_of(2);
            let mib: u64 = text.parse().ok().filter(even)?;
            mib.checked_mul(MIB)
        })
    }

    fn threshold(&mut self) -> Result<f64, BadConf> {
        let allowed = "a number between 0 and 1, neither included";
        self.value(OPTIONS[2], allowed, |text| {
            text.parse().ok().filter(|t: &f64| *t > 0.0 && *t < 1.0)
        })
    }

    /// Of the whole card: no limit.
    fn fraction(&mut self) -> Result<(), BadConf> {
        let allowed = "a number between 0 and 1";
        let fraction = self.value("per_process_memory_fraction", allowed, |text| {
            let is_share = |share: &f64| (0.0..=1.0).contains(share);
            text.parse().ok().filter(is_share)
        })?;
        match fraction {
            1.0 => Ok(()),
            _ => Err(BadConf::Beyond {
                option: "per_process_memory_fraction",
                why: "a snapshot does not say how large the card is; \
                      give the bytes as the limit instead",
            }),
        }
    }

    fn truth(&mut self) -> Result<bool, BadConf> {
        self.value(OPTIONS[3], "True or False", |text| match text {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        })
    }

    fn backend(&mut self) -> Result<(), BadConf> {
        match self.value("backend", "native or cudaMallocAsync", |text| match text {
            "native" => Some(true),
            "cudaMallocAsync" => Some(false),
            _ => None,
        })? {
            true => Ok(()),
            false => Err(BadConf::Beyond {
                option: "backend:cudaMallocAsync",
                why: "it is the driver's allocator, whose rules are not public",
            }),
        }
    }

    /// One number for all sizes, or a list such as `[256:1,512:2,>:4]`: each entry gives the
    /// divisions for sizes from that many MiB on.
    fn divisions(&mut self, config: &mut Config) -> Result<(), BadConf> {
        let all = &mut config.roundup_power2_divisions;
        if self.tokens.get(self.next).is_none_or(|token| token != "[") {
            let divisions = self.value(OPTIONS[1], "a power of two, or a list", |text| {
                text.parse().ok().filter(|n: &u64| n.is_power_of_two())
            })?;
            all.fill(divisions);
            return Ok(());
        }
        self.next += 1;
        let mut last = None;
        loop {
            if self.tokens.get(self.next).is_some_and(|token| token == "]") {
                self.next += 1;
                return Ok(());
            }
            let bucket = self.bucket(all.len())?;
            self.expect(':')?;
            let divisions =
                self.value(OPTIONS[1], "a power of two, or 0, at each size", |text| {
                    let fine = |n: &u64| *n == 0 || n.is_power_of_two();
                    text.parse().ok().filter(fine)
                })?;
            match (bucket, last) {
                (None, _) => {
                    let rest = last.unwrap_or(0) + usize::from(self.rest_follows);
                    all.iter_mut().skip(rest).for_each(|at| *at = divisions);
                }
                (Some(at), None) => all[..=at].fill(divisions),
                (Some(at), Some(_)) => all[at] = divisions,
            }
            last = bucket.or(last);
            if self.tokens.get(self.next).is_none_or(|token| token != "]") {
                self.expect(',')?;
            }
        }
    }

    /// The position of a size in the list; `None` for `>`, which stands for all sizes that follow.
    fn bucket(&mut self, buckets: usize) -> Result<Option<usize>, BadConf> {
        self.value(
            OPTIONS[1],
            "sizes that are powers of two in MiB, or >",
            |text| {
                if text == ">" {
                    return Some(None);
                }
                let mib: u64 = text.parse().ok().filter(|n: &u64| n.is_power_of_two())?;
                Some(Some((mib.trailing_zeros() as usize).min(buckets - 1)))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divisions(text: &str) -> [u64; 16] {
        let config = parse(&format!("roundup_power2_divisions:{text}"), None).unwrap();
        config.roundup_power2_divisions
    }

    #[test]
    fn a_text_of_rules_sets_them() {
        let check = |given: &str, expected: &str| {
            let config = parse(given, None).unwrap();
            assert_eq!(text(&config), expected);
            for torch in [None, Some("2.8"), Some("2.13")] {
                assert_eq!(parse(expected, torch).as_ref(), Ok(&config));
            }
        };
        check("", "");
        check("expandable_segments:False", "");
        check(
            "expandable_segments:True, max_split_size_mb:128",
            "max_split_size_mb:128,expandable_segments:True",
        );
        check(
            "garbage_collection_threshold:0.6,roundup_power2_divisions:8",
            "roundup_power2_divisions:8,garbage_collection_threshold:0.6",
        );
        check(
            "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
            "roundup_power2_divisions:[256:1,512:2,1024:8,>:8]",
        );
        check(
            "roundup_power2_divisions:[16384:0,32768:4]",
            "roundup_power2_divisions:[16384:0,32768:4]",
        );
        check(
            "max_non_split_rounding_mb:40,large_segment_size_mb:32,max_split_size_mb:64",
            "max_split_size_mb:64,max_non_split_rounding_mb:40,large_segment_size_mb:32",
        );
    }

    #[test]
    fn what_is_named_is_set_and_the_rest_has_its_default() {
        let check = |text: &str, expected: Config| {
            assert_eq!(parse(text, None), Ok(expected), "{text}");
        };
        check("", Config::default());
        let split = Config {
            max_split_size: Some(128 * MIB),
            ..Config::default()
        };
        check("max_split_size_mb:128", split.clone());
        check(" max_split_size_mb : 128 , ", split.clone());
        check(
            "backend:native,max_split_size_mb:64,max_split_size_mb:128",
            split,
        );
        check(
            "expandable_segments:True,garbage_collection_threshold:0.8",
            Config {
                expandable_segments: true,
                garbage_collection_threshold: 0.8,
                ..Config::default()
            },
        );
        check(
            "large_segment_size_mb:12,max_non_split_rounding_mb:40",
            Config {
                large_segment: 12 * MIB,
                max_non_split_rounding: 40 * MIB,
                ..Config::default()
            },
        );
    }

    #[test]
    fn divisions_are_one_number_or_a_list() {
        assert_eq!(divisions("8"), [8; 16]);
        let mut expected = [1; 16];
        expected[9] = 2;
        expected[10] = 4;
        expected[11..].fill(8);
        assert_eq!(divisions("[256:1,512:2,1024:4,2048:8,>:8]"), expected);
        // `>` begins at the last size that was named, and replaces its value.
        let mut expected = [1; 16];
        expected[9..].fill(4);
        assert_eq!(divisions("[256:1,512:2,>:4]")[9..], expected[9..]);
        assert_eq!(divisions("[256:1,512:2,>:4]")[..9], expected[..9]);
        assert_eq!(divisions("[>:4]"), [4; 16]);
        assert_eq!(divisions("[65536:2]"), [2; 16]);
        assert_eq!(divisions("[]"), [0; 16]);
    }

    #[test]
    fn where_the_rest_of_a_list_begins_depends_on_the_version() {
        let check = |torch: Option<&str>, at_last: u64| {
            let text = "roundup_power2_divisions:[256:1,512:2,>:4]";
            let divisions = parse(text, torch).unwrap().roundup_power2_divisions;
            assert_eq!(divisions[8..12], [1, at_last, 4, 4], "{torch:?}");
        };
        check(None, 4);
        check(Some("2.5 to 2.7"), 4);
        check(Some("2.8 to 2.9"), 4);
        check(Some("2.10 to 2.11"), 2);
        check(Some("2.13"), 2);
        let last = parse("roundup_power2_divisions:[32768:2,>:4]", Some("2.13")).unwrap();
        assert_eq!(last.roundup_power2_divisions, [2; 16]);
    }

    #[test]
    fn what_a_file_names_is_read_as_far_as_it_is_known() {
        let check = |given: &str, expected: &str| {
            assert_eq!(text(&parse_accepted(given, None)), expected, "{given}");
        };
        check("max_split_size_mb:128", "max_split_size_mb:128");
        check(
            "per_process_memory_fraction:0.9,large_segment_size_mb:64,max_split_size_mb:128",
            "max_split_size_mb:128,large_segment_size_mb:64",
        );
        check(
            "of_tomorrow:[a:1,b:2],max_split_size_mb:128,expandable_segments:maybe",
            "max_split_size_mb:128",
        );
        check(
            "roundup_power2_divisions:[256:2,x:3],large_segment_size_mb:4",
            "large_segment_size_mb:4",
        );
        check(":,[,large_segment_size_mb", "");
    }

    #[test]
    fn mistakes_name_the_option_and_what_may_stand_there() {
        let check = |text: &str, expected: &str| {
            let refused = parse(text, None).unwrap_err();
            assert_eq!(refused.to_string(), expected, "{text}");
        };
        check(
            "max_split_size_mb:12",
            "max_split_size_mb is `12`, but must be a whole number of MiB, 20 or more",
        );
        check(
            "max_split_size_mb:",
            "max_split_size_mb is empty, but must be a whole number of MiB, 20 or more",
        );
        check(
            "max_split_size_mb",
            "expected `:` after `max_split_size_mb`",
        );
        check(
            "expandable_segments:true",
            "expandable_segments is `true`, but must be True or False",
        );
        check(
            "garbage_collection_threshold:1",
            "garbage_collection_threshold is `1`, but must be a number between 0 and 1, \
             neither included",
        );
        check(
            "roundup_power2_divisions:3",
            "roundup_power2_divisions is `3`, but must be a power of two, or a list",
        );
        check(
            "roundup_power2_divisions:[100:2]",
            "roundup_power2_divisions is `100`, but must be sizes that are powers of two in MiB, \
             or >",
        );
        check("roundup_power2_divisions:[256:2", "expected `,` after `2`");
        check(
            "max_split:1",
            "`max_split` is no option of PyTorch's allocator: known are max_split_size_mb, \
             roundup_power2_divisions, garbage_collection_threshold, expandable_segments, \
             max_non_split_rounding_mb, large_segment_size_mb",
        );
        check(
            "max_split_size_mb:64;x",
            "max_split_size_mb is `64;x`, but must be a whole number of MiB, 20 or more",
        );
        check(
            "per_process_memory_fraction:0.5",
            "per_process_memory_fraction cannot be computed here: a snapshot does not say how \
             large the card is; give the bytes as the limit instead",
        );
        check(
            "throw_on_cudamalloc_oom:True",
            "throw_on_cudamalloc_oom cannot be computed here: a recording does not show what a \
             program does after a refusal",
        );
        let whole = parse("per_process_memory_fraction:1.0", None);
        assert_eq!(whole, Ok(Config::default()));
    }
}
