//! Categories that a team makes itself: rules that say which blocks go by another name.
//!
//! A file of rules has a name and conditions in each line. All conditions of a line must hold;
//! lines with the same name are alternatives. A block goes to the first line that takes it, and
//! keeps Tidemark's category if none does. `docs/categories.md` describes the conditions.
//!
//! ```text
//! # Who holds attention's memory?
//! attention    function=*attention*  size>=1MiB
//! attention    module=flash_attn.*
//! "KV 8 bit"   shape=[*,8,128]       category=kv_cache
//! ```

use super::Category;
use super::name::{BadName, OwnName};
use crate::fingerprint::Fingerprint;
use crate::units::Bytes;
use wildmatch::WildMatch;

/// The most lines that have rules.
pub const MOST_RULES: usize = 64;
/// The longest file of rules, bytes.
pub const LONGEST_FILE: usize = 64 << 10;
/// The longest pattern, characters: the work of a pattern grows with its length.
pub const LONGEST_PATTERN: usize = 256;

/// A team's own categories. Two are equal when they were read from the same text.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    key: u64,
}

impl PartialEq for Rules {
    fn eq(&self, other: &Rules) -> bool {
        self.key == other.key
    }
}

impl Eq for Rules {}

/// One line.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it calls the blocks that it takes.
    pub name: OwnName,
    /// Counted from 1.
    pub line: u32,
    /// All must hold for one frame of the stack.
    frame: Vec<(Part, WildMatch)>,
    shape: Option<WildMatch>,
    /// What Tidemark must take a block for; `None`: anything.
    pub category: Option<Category>,
    at_least: Bytes,
    at_most: Bytes,
}

/// What a pattern is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Function,
    File,
    Module,
}

/// A line that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadRule {
    /// Counted from 1.
    pub line: u32,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// [`BadRule`]: the first line that is not one.
    pub fn parse(text: &str) -> Result<Rules, BadRule> {
        let mut rules: Vec<Rule> = Vec::new();
        if text.len() > LONGEST_FILE {
            let why = format!("the file has more than {LONGEST_FILE} bytes");
            return Err(BadRule { line: 1, why });
        }
        // Some editors begin a file with the mark of UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in (1..).zip(text.lines()) {
            let bad = |why: String| BadRule { line: number, why };
            let words = words(line).map_err(bad)?;
            let Some((name, conditions)) = words.split_first() else {
                continue;
            };
            if rules.len() == MOST_RULES {
                return Err(bad(format!("there are more than {MOST_RULES} rules")));
            }
            let rule = Rule::parse(number, name, conditions).map_err(bad)?;
            let is_taken =
                |other: &&Rule| other.name != rule.name && other.name.key() == rule.name.key();
            if let Some(other) = rules.iter().find(is_taken) {
                let other = other.name.as_str();
                return Err(bad(format!(
                    "the name has the same key as {other}: choose another"
                )));
            }
            rules.push(rule);
        }
        let key = match rules.is_empty() {
            true => 0,
            false => Fingerprint::default().text(text).key(),
        };
        Ok(Rules { rules, key })
    }

    /// The rules, in the order of the file.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The names, in the order of the file, each once.
    pub fn names(&self) -> Vec<OwnName> {
        let mut names = Vec::new();
        for rule in &self.rules {
            if !names.contains(&rule.name) {
                names.push(rule.name);
            }
        }
        names
    }

    /// Tells what was derived with these rules from what was derived with others; 0 without rules.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether Tidemark's inference decides which blocks have a name, and not the rules alone.
    pub fn infers(&self, name: OwnName) -> bool {
        let mut of_name = self.rules.iter().filter(|rule| rule.name == name);
        of_name.any(|rule| rule.category.is_some())
    }
}

/// The words of a line: separated by spaces, or between quotes. A `#` begins a comment.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '#' if !quoted && word.is_none() => break,
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quoted {
        true => Err("a quote is not closed".to_owned()),
        false => Ok(words),
    }
}

impl Rule {
    fn parse(line: u32, name: &str, conditions: &[String]) -> Result<Rule, String> {
        let mut rule = Rule {
            name: name
                .parse()
                .map_err(|error: BadName| format!("{name:?}: {error}"))?,
            line,
            frame: Vec::new(),
            shape: None,
            category: None,
            at_least: Bytes::ZERO,
            at_most: Bytes(u64::MAX),
        };
        if conditions.is_empty() {
            return Err(format!(
                "{name} has no condition, so it would take everything"
            ));
        }
        for condition in conditions {
            rule.add(condition)?;
        }
        Ok(rule)
    }

    fn add(&mut self, condition: &str) -> Result<(), String> {
        let size = |text: &str| {
            let bad = |_| format!("{condition:?}: write a size like 64MiB or 4096");
            text.parse::<Bytes>().map_err(bad)
        };
        if let Some(least) = condition.strip_prefix("size>=") {
            self.at_least = size(least)?;
            return Ok(());
        }
        if let Some(most) = condition.strip_prefix("size<=") {
            self.at_most = size(most)?;
            return Ok(());
        }
        let (what, pattern) = condition.split_once('=').unwrap_or((condition, ""));
        if pattern.is_empty() {
            return Err(format!("{condition:?} is not a condition: {CONDITIONS}"));
        }
        if pattern.chars().count() > LONGEST_PATTERN {
            let start: String = pattern.chars().take(20).collect();
            return Err(format!(
                "{what}={start}…: a pattern has at most {LONGEST_PATTERN} characters"
            ));
        }
        match what {
            "function" => self.frame.push((Part::Function, WildMatch::new(pattern))),
            "file" => self.frame.push((Part::File, WildMatch::new(pattern))),
            "module" => self.frame.push((Part::Module, WildMatch::new(pattern))),
            "shape" => self.shape = Some(WildMatch::new(&without_spaces(pattern))),
            "category" => {
                let found = Category::ALL.into_iter().find(|c| c.name() == pattern);
                let names = || Category::ALL.map(Category::name).join(", ");
                let unknown = || format!("{pattern:?} is not a category: use {}", names());
                self.category = Some(found.ok_or_else(unknown)?);
            }
            _ => return Err(format!("{condition:?} is not a condition: {CONDITIONS}")),
        }
        Ok(())
    }

    /// Whether it says anything about the stack.
    pub fn asks_for_frame(&self) -> bool {
        !self.frame.is_empty()
    }

    /// Whether a function satisfies all that the rule says of one.
    pub fn has_function(&self, function: &str) -> bool {
        self.frame.iter().all(|(part, pattern)| match part {
            Part::Function => pattern.matches(function),
            Part::File | Part::Module => true,
        })
    }

    /// Whether a file satisfies all that the rule says of one. `module` is the file as a module's
    /// name (`torch.nn.functional`).
    pub fn has_file(&self, file: &str, module: &str) -> bool {
        self.frame.iter().all(|(part, pattern)| match part {
            Part::Function => true,
            Part::File => pattern.matches(file),
            Part::Module => pattern.matches(module),
        })
    }

    /// Whether a block's size satisfies the rule.
    pub fn has_size(&self, size: Bytes) -> bool {
        (self.at_least..=self.at_most).contains(&size)
    }

    /// Whether what is said of a block satisfies the rule.
    pub fn has_shape(&self, described: Option<&str>) -> bool {
        match (&self.shape, described) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(shape), Some(text)) => shapes(text).any(|text| shape.matches(&text)),
        }
    }
}

const CONDITIONS: &str = "use function=, file=, module=, shape=, category=, size>= or size<=";

fn without_spaces(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The lists of dimensions in a description, each in its brackets: `f32 [2, 3]` has `[2,3]`.
fn shapes(text: &str) -> impl Iterator<Item = String> + '_ {
    let opened = text.split('[').skip(1);
    opened.filter_map(|rest| {
        let (inside, _) = rest.split_once(']')?;
        Some(format!("[{}]", without_spaces(inside)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_utf_8_is_no_part_of_a_name() {
        let rules = Rules::parse("\u{feff}attention function=a").unwrap();
        assert_eq!(rules, Rules::parse("attention function=a").unwrap());
    }

    #[test]
    fn a_bad_line_is_named() {
        let check = |text: &str, expected: &str| {
            let error = Rules::parse(text).expect_err(text);
            assert!(error.to_string().starts_with(expected), "{error}");
        };
        check("# fine\nx", "line 2: x has no condition");
        check(
            "x colour=red",
            "line 1: \"colour=red\" is not a condition: use function=",
        );
        check("x function=", "line 1: \"function=\" is not a condition");
        check("\n\nx size>=many", "line 3: \"size>=many\": write a size");
        check(
            "x category=leak",
            "line 1: \"leak\" is not a category: use parameter",
        );
        check(
            "activation function=a",
            "line 1: \"activation\": one of Tidemark's",
        );
        check("\"x function=a", "line 1: a quote is not closed");
        check("a<b function=a", "line 1: \"a<b\": a name has 1 to 31");
        let longest = "a".repeat(LONGEST_PATTERN);
        assert!(Rules::parse(&format!("x function={longest}")).is_ok());
        check(
            &format!("x shape=*{longest}"),
            "line 1: shape=*aaaaaaaaaaaaaaaaaaa…: a pattern has at most 256 characters",
        );
        let many = "x function=a\n".repeat(MOST_RULES + 1);
        check(&many, "line 65: there are more than 64 rules");
        check(
            &" ".repeat(LONGEST_FILE + 1),
            "line 1: the file has more than",
        );
    }

    #[test]
    fn a_file_has_names_and_a_key() {
        let rules = Rules::parse("a function=x\n# no\nb file=y # why\na module=z\n").unwrap();
        let names: Vec<_> = rules
            .names()
            .iter()
            .map(|n| n.as_str().to_owned())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_ne!(rules.key(), Rules::parse("a function=x").unwrap().key());
        assert_eq!(Rules::parse("# nothing\n\n").unwrap().key(), 0);
        let spaced = Rules::parse("\"my name\" function=\"a b\"").unwrap();
        assert_eq!(spaced.names()[0].as_str(), "my name");
    }

    #[test]
    fn shapes_are_found_in_descriptions() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(shapes(text).collect::<Vec<_>>(), expected, "{text}");
        };
        check("f32 [2, 3]", &["[2,3]"]);
        check("[[1, 2], [3]]", &["[1,2]", "[3]"]);
        check("no shape", &[]);
        check("[open", &[]);
    }
}
