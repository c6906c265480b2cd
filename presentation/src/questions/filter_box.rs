//! The fields of an allocation filter: what they show, and how a typed text is read.

use super::sizes::{exact, size_of};
use super::step_numbers::StepNumbers;
use crate::letters::several;
use api::alive::AllocationFilter;
use trace::units::Bytes;

/// What a field holds that people typed: nothing, a value, or why it is no value.
type Typed<T> = Result<Option<T>, String>;

/// The numbers of the steps, once they are known.
type Steps<'a> = Option<&'a StepNumbers>;

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
        .map_err(|_| "Not a stream: try 0 or 0x7f00.".to_owned())
}

/// What a field says whose text is no number.
const NO_NUMBER: &str = "Not a whole number.";

fn number(text: &str) -> Typed<u32> {
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| NO_NUMBER.to_owned()),
    }
}

/// The position of the step that has a typed number.
fn step(
    text: &str,
    steps: Steps<'_>,
    position: fn(&StepNumbers, u32) -> Result<u32, String>,
) -> Typed<u32> {
    let Some(number) = number(text)? else {
        return Ok(None);
    };
    let steps = steps.ok_or("The steps are not known yet: try again.")?;
    position(steps, number).map(Some)
}

/// The number of the step at a position. While the numbers are not known there is no right one.
fn shown_step(position: Option<u32>, steps: Steps<'_>) -> String {
    shown(steps.and_then(|steps| Some(steps.at(position?))))
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
fn put<T>(place: &mut Option<T>, typed: Typed<T>) -> Result<(), String> {
    let (value, said) = match typed {
        Ok(value) => (value, Ok(())),
        Err(why) => (None, Err(why)),
    };
    *place = value;
    said
}

/// A text field of the filter.
pub struct Field {
    /// Its name, where the steps of the run are called so.
    label: fn(step: &str) -> String,
    /// What it shows while it is empty.
    pub hint: &'static str,
    end: End,
    value: Value,
}

/// Which end of a range a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// None: it stands alone.
    Neither,
    From,
    To,
}

/// Where a filter has what a field sets.
type In<T> = fn(&mut AllocationFilter) -> &mut T;

enum Value {
    Text(In<String>),
    Size(In<Option<u64>>),
    Number(In<Option<u32>>),
    /// The position of a step, which is typed by its number.
    Step(
        In<Option<u32>>,
        fn(&StepNumbers, u32) -> Result<u32, String>,
    ),
    Stream(In<Option<u64>>),
}

impl Field {
    /// Its name, for a run whose steps are called `step`.
    pub fn called(&self, step: &str) -> String {
        (self.label)(step)
    }

    /// The class of the field.
    pub const fn class(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "input wide-field",
            _ => "input",
        }
    }

    /// The text that it shows for a filter.
    pub fn read(&self, filter: &AllocationFilter, steps: Steps<'_>) -> String {
        // A place can be lent only by a filter that may be changed.
        let mut filter = filter.clone();
        match self.value {
            Value::Text(of) => std::mem::take(of(&mut filter)),
            Value::Size(of) => shown_size(*of(&mut filter)),
            Value::Number(of) => shown(*of(&mut filter)),
            Value::Step(of, _) => shown_step(*of(&mut filter), steps),
            Value::Stream(of) => shown(*of(&mut filter)),
        }
    }

    /// Sets the filter to a typed text.
    ///
    /// # Errors
    /// The reason why the text is no value. It then unsets the filter.
    pub fn write(
        &self,
        filter: &mut AllocationFilter,
        text: &str,
        steps: Steps<'_>,
    ) -> Result<(), String> {
        match self.value {
            Value::Text(of) => text.trim().clone_into(of(filter)),
            Value::Size(of) => return put(of(filter), bytes(text)),
            Value::Number(of) => return put(of(filter), number(text)),
            Value::Step(of, position) => return put(of(filter), step(text, steps, position)),
            Value::Stream(of) => return put(of(filter), stream_of(text)),
        }
        Ok(())
    }
}

/// The fields with their positions: both ends of a range stay together.
pub fn ranges() -> Vec<Vec<(usize, &'static Field)>> {
    let fields: Vec<(usize, &'static Field)> = FIELDS.iter().enumerate().collect();
    let ranges = fields.chunk_by(|_, (_, second)| second.end == End::To);
    ranges.map(<[_]>::to_vec).collect()
}

/// The name of the upper end of every range.
const TO: fn(&str) -> String = |_| "to".to_owned();

/// The text fields, in the order in which they are shown.
static FIELDS: [Field; 9] = [
    Field {
        label: |_| "Function or file".to_owned(),
        hint: "e.g. forward, model.py",
        end: End::Neither,
        value: Value::Text(|f| &mut f.q),
    },
    Field {
        label: |_| "Size from".to_owned(),
        hint: "e.g. 1 MiB",
        end: End::From,
        value: Value::Size(|f| &mut f.min),
    },
    Field {
        label: TO,
        hint: "e.g. 2 GiB",
        end: End::To,
        value: Value::Size(|f| &mut f.max),
    },
    Field {
        label: |step| format!("Outlived {} from", several(step)),
        hint: "e.g. 1",
        end: End::From,
        value: Value::Number(|f| &mut f.older),
    },
    Field {
        label: TO,
        hint: "any",
        end: End::To,
        value: Value::Number(|f| &mut f.younger),
    },
    Field {
        label: |step| format!("Allocated in {step}"),
        hint: "first",
        end: End::From,
        value: Value::Step(|f| &mut f.born, StepNumbers::first),
    },
    Field {
        label: TO,
        hint: "last",
        end: End::To,
        value: Value::Step(|f| &mut f.until, StepNumbers::last),
    },
    Field {
        label: |_| "Alive after event".to_owned(),
        hint: "any",
        end: End::Neither,
        value: Value::Number(|f| &mut f.alive),
    },
    Field {
        label: |_| "Stream".to_owned(),
        hint: "e.g. 0",
        end: End::Neither,
        value: Value::Stream(|f| &mut f.stream),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use trace::span::Span;
    use trace::trace::Step;
    use trace::units::EventIdx;

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

    /// Steps that the program calls 5 to 9.
    fn late() -> StepNumbers {
        let step = |index: u32| Step {
            index,
            name: format!("step {}", index + 5),
            events: Span::new(EventIdx(index), EventIdx(index + 1)),
        };
        StepNumbers::of(&(0..5).map(step).collect::<Vec<_>>())
    }

    #[test]
    fn every_field_shows_what_it_sets() {
        let steps = late();
        for field in &FIELDS {
            let mut filter = AllocationFilter::default();
            assert_eq!(field.read(&filter, Some(&steps)), "", "{}", field.hint);
            assert_eq!(field.write(&mut filter, "7", Some(&steps)), Ok(()));
            assert_eq!(field.read(&filter, Some(&steps)), "7", "{}", field.hint);
            assert_eq!(filter.n_set(), 1);
        }
    }

    #[test]
    fn what_is_no_value_is_refused_and_unsets_the_field() {
        let steps = late();
        for field in &FIELDS[1..] {
            let mut filter = AllocationFilter::default();
            assert_eq!(field.write(&mut filter, "7", Some(&steps)), Ok(()));
            assert!(
                field.write(&mut filter, "xyz", Some(&steps)).is_err(),
                "{}",
                field.hint
            );
            assert_eq!(filter.n_set(), 0);
        }
    }

    #[test]
    fn steps_are_typed_by_their_numbers_and_asked_for_by_their_positions() {
        let steps = late();
        let mut filter = AllocationFilter::default();
        let (from, to) = (&FIELDS[5], &FIELDS[6]);
        assert_eq!(from.write(&mut filter, "6", Some(&steps)), Ok(()));
        assert_eq!(to.write(&mut filter, " 9 ", Some(&steps)), Ok(()));
        assert_eq!((filter.born, filter.until), (Some(1), Some(4)));
        let which = "None has this number: they go from 5 to 9.".to_owned();
        assert_eq!(to.write(&mut filter, "4", Some(&steps)), Err(which));
        assert_eq!((filter.born, filter.until), (Some(1), None));
        // While the numbers are not known, none is taken for a position.
        assert!(from.write(&mut filter.clone(), "1", None).is_err());
        assert_eq!(from.read(&filter, None), "");
    }
}
