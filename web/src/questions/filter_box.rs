//! The fields of an allocation filter. A typed text goes to the address when the field is left.

use super::Asker;
use api::alive::{AllocationFilter, Sort};
use leptos::prelude::*;
use presentation::questions::sizes::{exact, size_of};
use std::collections::BTreeMap;
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

/// A text field of the filter: its name, a hint, what it shows and what it sets.
struct Field {
    label: &'static str,
    hint: &'static str,
    class: &'static str,
    read: fn(&AllocationFilter) -> String,
    write: fn(&mut AllocationFilter, &str) -> Result<(), &'static str>,
}

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
        label: "to",
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
        label: "to",
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
        label: "to",
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

/// What was typed where it is no value, and why not, by the position of the field.
type Wrong = RwSignal<BTreeMap<usize, (String, &'static str)>>;

/// The fields.
#[component]
pub fn FilterBox(asker: Asker) -> impl IntoView {
    let filter = asker.memo(|state| state.filter.clone());
    let change = move |change: &dyn Fn(&mut AllocationFilter)| {
        asker.view.update(|state| change(&mut state.filter));
    };
    let wrong: Wrong = RwSignal::new(BTreeMap::new());
    let fields = FIELDS.iter().enumerate();
    let fields = fields.map(|(at, field)| text_field(asker, filter, wrong, at, field));
    let fields = fields.collect_view();
    let n_set = move || filter.with(AllocationFilter::n_set);
    let group = move || {
        let group = filter.with(|f| f.site.clone().or_else(|| f.of.clone()))?;
        let any_group = move |_| {
            change(&|filter| (filter.site, filter.of) = (None, None));
        };
        Some(view! {
            <button class="button" title=group on:click=any_group>
                "One group only ✕"
            </button>
        })
    };
    view! {
        <form class="filter" on:submit=|event| event.prevent_default()>
            {fields}
            <Choices asker=asker filter=filter/>
            {group}
            <button
                type="button"
                class="button"
                disabled=move || n_set() == 0 && wrong.with(BTreeMap::is_empty)
                on:click=move |_| {
                    wrong.update(BTreeMap::clear);
                    change(&|filter| *filter = AllocationFilter::default());
                }
            >
                "Clear the filter"
            </button>
        </form>
    }
}

/// A field to type into. Where the text is no value, it stays, and the field says what it wants.
fn text_field(
    asker: Asker,
    filter: Memo<AllocationFilter>,
    wrong: Wrong,
    at: usize,
    field: &'static Field,
) -> impl IntoView {
    let set = move |event| {
        let text = event_target_value(&event);
        // First, because the field shows this text where it is no value.
        let said = (field.write)(&mut AllocationFilter::default(), &text);
        wrong.update(|wrong| {
            wrong.remove(&at);
            wrong.extend(said.err().map(|why| (at, (text.clone(), why))));
        });
        asker.view.update(|state| {
            // What it says is told already.
            let _ = (field.write)(&mut state.filter, &text);
        });
    };
    let why = Memo::new(move |_| wrong.with(|wrong| wrong.get(&at).map(|&(_, why)| why)));
    let typed = move || wrong.with(|wrong| wrong.get(&at).map(|(text, _)| text.clone()));
    let id = format!("filter-wrong-{at}");
    view! {
        <label class="filter-field">
            <span>{field.label}</span>
            <input
                class=field.class
                placeholder=field.hint
                aria-invalid=move || why.get().map(|_| "true")
                aria-describedby=id.clone()
                prop:value=move || typed().unwrap_or_else(|| filter.with(field.read))
                on:change=set
            />
            <small class="field-problem" id=id role="alert">{why}</small>
        </label>
    }
}

/// The fields with a few values to choose from.
#[component]
fn Choices(asker: Asker, filter: Memo<AllocationFilter>) -> impl IntoView {
    let pools = [("", "any"), ("small", "small"), ("large", "large")].map(|(value, name)| {
        let selected = move || filter.with(|f| f.pool.as_deref().unwrap_or("") == value);
        view! { <option value=value selected=selected>{name}</option> }
    });
    let sorts = Sort::ALL.map(|sort| {
        let selected = move || filter.with(|f| f.sort == sort);
        let text = format!("{} first", sort.name());
        view! { <option value=sort.name() selected=selected>{text}</option> }
    });
    let set_pool = move |event| {
        let pool = Some(event_target_value(&event)).filter(|pool| !pool.is_empty());
        asker.view.update(|state| state.filter.pool = pool);
    };
    let set_sort = move |event| {
        let name = event_target_value(&event);
        let sort = Sort::ALL.into_iter().find(|sort| sort.name() == name);
        asker
            .view
            .update(|state| state.filter.sort = sort.unwrap_or_default());
    };
    view! {
        <label class="filter-field">
            <span>"Pool"</span>
            <select class="input" on:change=set_pool>{pools}</select>
        </label>
        <label class="filter-field">
            <span>"Order"</span>
            <select class="input" on:change=set_sort>{sorts}</select>
        </label>
    }
}

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
