//! The fields of an allocation filter: what they show, and how a typed text is read.

use super::sizes::{exact, size_of};
use crate::letters::several;
use api::alive::AllocationFilter;
use trace::units::Bytes;

/// What a field holds that people typed: nothing, a value, or why it is no value.
type Typed<T> = Result<Option<T>, &'static str>;

/// A stream handle, decimal or `0x…`.
fn stream_of(text: &str) -> Typed<u64> {
    let text = text.trim();
    let stream = match text.strip_prefix("0x") {
        _ if text.is_empty() => return Ok(None),
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    stream
        .map(Some)
        .map_err(|_| "Not a stream: try 0 or 0x7f00.")
}

fn number(text: &str) -> Typed<u32> {
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| "Not a whole number."),
    }
}

fn bytes(text: &str) -> Typed<u64> {
    Ok(size_of(text)?.map(Bytes::get))
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn shown_size(value: Option<u64>) -> String {
    value.map_or_else(String::new, |bytes| exact(Bytes(bytes)))
}

/// Puts a value into its place. What is no value leaves the place empty, so that no older value
/// holds that the field does not show any more.
fn put<T>(place: &mut Option<T>, typed: Typed<T>) -> Result<(), &'static str> {
    let (value, said) = match typed {
        Ok(value) => (value, Ok(())),
        Err(why) => (None, Err(why)),
    };
    *place = value;
    said
}

/// A text field of the filter.
pub struct Field {
    /// Its name, where the steps of the run are called so; see [`Field::called`].
    label: &'static str,
    /// What it shows while it is empty.
    pub hint: &'static str,
    /// The class of the field.
    pub class: &'static str,
    /// The text that it shows for a filter.
    pub read: fn(&AllocationFilter) -> String,
    /// Sets the filter to a typed text. What is no value is refused with a reason, and unsets it.
    pub write: fn(&mut AllocationFilter, &str) -> Result<(), &'static str>,
}

/// The upper end of a range.
const TO: &str = "to";

impl Field {
    /// Its name, for a run whose steps are called `step`.
    pub fn called(&self, step: &str) -> String {
        match self.label.contains("steps") {
            true => self.label.replace("steps", &several(step)),
            false => self.label.replace("step", step),
        }
    }
}

/// The fields with their positions: both ends of a range stay together.
pub fn ranges() -> Vec<Vec<(usize, &'static Field)>> {
    let mut ranges: Vec<Vec<(usize, &'static Field)>> = Vec::new();
    for (at, field) in FIELDS.iter().enumerate() {
        match ranges.last_mut() {
            Some(range) if field.label == TO => range.push((at, field)),
            _ => ranges.push(vec![(at, field)]),
        }
    }
    ranges
}

/// The text fields, in the order in which they are shown.
static FIELDS: [Field; 9] = [
    Field {
        label: "Function or file",
        hint: "e.g. forward, model.py",
        class: "input wide-field",
        read: |f| f.q.clone(),
        write: |f, text| {
            f.q = text.trim().to_owned();
            Ok(())
        },
    },
    Field {
        label: "Size from",
        hint: "e.g. 1 MiB",
        class: "input",
        read: |f| shown_size(f.min),
        write: |f, text| put(&mut f.min, bytes(text)),
    },
    Field {
        label: TO,
        hint: "e.g. 2 GiB",
        class: "input",
        read: |f| shown_size(f.max),
        write: |f, text| put(&mut f.max, bytes(text)),
    },
    Field {
        label: "Outlived steps from",
        hint: "e.g. 1",
        class: "input",
        read: |f| shown(f.older),
        write: |f, text| put(&mut f.older, number(text)),
    },
    Field {
        label: TO,
        hint: "any",
        class: "input",
        read: |f| shown(f.younger),
        write: |f, text| put(&mut f.younger, number(text)),
    },
    Field {
        label: "Allocated in step",
        hint: "e.g. 0",
        class: "input",
        read: |f| shown(f.born),
        write: |f, text| put(&mut f.born, number(text)),
    },
    Field {
        label: TO,
        hint: "last",
        class: "input",
        read: |f| shown(f.until),
        write: |f, text| put(&mut f.until, number(text)),
    },
    Field {
        label: "Alive after event",
        hint: "any",
        class: "input",
        read: |f| shown(f.alive),
        write: |f, text| put(&mut f.alive, number(text)),
    },
    Field {
        label: "Stream",
        hint: "e.g. 0",
        class: "input",
        read: |f| shown(f.stream),
        write: |f, text| put(&mut f.stream, stream_of(text)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_handles() {
        assert_eq!(stream_of("0x7f00"), Ok(Some(0x7f00)));
        assert_eq!(stream_of(" 7 "), Ok(Some(7)));
        assert_eq!(stream_of(""), Ok(None));
        assert!(stream_of("default").is_err());
    }

    #[test]
    fn fields_ask_for_what_the_steps_are() {
        let named = |step: &str| FIELDS.each_ref().map(|field| field.called(step));
        let told = named("step");
        assert_eq!(
            [&told[3], &told[5]],
            ["Outlived steps from", "Allocated in step"]
        );
        let told = named("denoising step");
        let expected = [
            "Outlived denoising steps from",
            "Allocated in denoising step",
        ];
        assert_eq!([&told[3], &told[5]], expected);
        assert_eq!(named("micro-batch")[3], "Outlived micro-batches from");
    }

    #[test]
    fn both_ends_of_a_range_stay_together() {
        let sizes: Vec<usize> = ranges().iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 2, 2, 2, 1, 1]);
        let positions: Vec<usize> = ranges().concat().iter().map(|(at, _)| *at).collect();
        assert!(positions.into_iter().eq(0..FIELDS.len()));
    }

    #[test]
    fn every_field_shows_what_it_sets() {
        for field in &FIELDS {
            let mut filter = AllocationFilter::default();
            assert_eq!((field.read)(&filter), "", "{}", field.label);
            assert_eq!((field.write)(&mut filter, "7"), Ok(()));
            assert_eq!((field.read)(&filter), "7", "{}", field.label);
            assert_eq!(filter.n_set(), 1);
        }
    }

    #[test]
    fn what_is_no_value_is_refused_and_unsets_the_field() {
        for field in &FIELDS[1..] {
            let mut filter = AllocationFilter::default();
            assert_eq!((field.write)(&mut filter, "7"), Ok(()));
            assert!(
                (field.write)(&mut filter, "xyz").is_err(),
                "{}",
                field.label
            );
            assert_eq!(filter.n_set(), 0);
        }
    }
}
