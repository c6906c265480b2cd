//! The fields of an allocation filter. A typed text goes to the address when the field is left.

use super::Asker;
use api::alive::{AllocationFilter, Sort};
use leptos::prelude::*;
use trace::units::Bytes;

/// Bytes of a size as people type it: `4096`, `64k`, `1.5 MiB`.
fn size_of(text: &str) -> Option<u64> {
    text.parse().ok().map(Bytes::get)
}

/// A stream handle, decimal or `0x…`.
fn stream_of(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A text field of the filter: its name, a hint, what it shows and what it sets.
struct Field {
    label: &'static str,
    hint: &'static str,
    class: &'static str,
    read: fn(&AllocationFilter) -> String,
    write: fn(&mut AllocationFilter, &str),
}

const FIELDS: [Field; 9] = [
    Field {
        label: "Function or file",
        hint: "forward, model.py",
        class: "input wide-field",
        read: |f| f.q.clone(),
        write: |f, text| f.q = text.trim().to_owned(),
    },
    Field {
        label: "Size from",
        hint: "1 MiB",
        class: "input",
        read: |f| shown(f.min),
        write: |f, text| f.min = size_of(text),
    },
    Field {
        label: "to",
        hint: "2 GiB",
        class: "input",
        read: |f| shown(f.max),
        write: |f, text| f.max = size_of(text),
    },
    Field {
        label: "Outlived steps from",
        hint: "1",
        class: "input",
        read: |f| shown(f.older),
        write: |f, text| f.older = number(text),
    },
    Field {
        label: "to",
        hint: "any",
        class: "input",
        read: |f| shown(f.younger),
        write: |f, text| f.younger = number(text),
    },
    Field {
        label: "Allocated in step",
        hint: "0",
        class: "input",
        read: |f| shown(f.born),
        write: |f, text| f.born = number(text),
    },
    Field {
        label: "to",
        hint: "last",
        class: "input",
        read: |f| shown(f.until),
        write: |f, text| f.until = number(text),
    },
    Field {
        label: "Alive after event",
        hint: "any",
        class: "input",
        read: |f| shown(f.alive),
        write: |f, text| f.alive = number(text),
    },
    Field {
        label: "Stream",
        hint: "0",
        class: "input",
        read: |f| shown(f.stream),
        write: |f, text| f.stream = stream_of(text),
    },
];

/// The fields.
#[component]
pub fn FilterBox(asker: Asker) -> impl IntoView {
    let filter = asker.memo(|state| state.filter.clone());
    let change = move |change: &dyn Fn(&mut AllocationFilter)| {
        asker.view.update(|state| change(&mut state.filter));
    };
    let fields = FIELDS.map(|field| {
        let Field {
            label,
            hint,
            class,
            read,
            write,
        } = field;
        view! {
            <label class="filter-field">
                <span>{label}</span>
                <input
                    class=class
                    placeholder=hint
                    prop:value=move || filter.with(read)
                    on:change=move |event| {
                        let text = event_target_value(&event);
                        change(&|filter| write(filter, &text));
                    }
                />
            </label>
        }
    });
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
                disabled=move || n_set() == 0
                on:click=move |_| change(&|filter| *filter = AllocationFilter::default())
            >
                "Clear the filter"
            </button>
        </form>
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
        assert_eq!(stream_of("0x7f00"), Some(0x7f00));
        assert_eq!(stream_of(" 7 "), Some(7));
        assert_eq!(stream_of("default"), None);
    }

    #[test]
    fn every_field_shows_what_it_sets() {
        for field in &FIELDS {
            let mut filter = AllocationFilter::default();
            assert_eq!((field.read)(&filter), "", "{}", field.label);
            (field.write)(&mut filter, "7");
            assert_eq!((field.read)(&filter), "7", "{}", field.label);
            assert_eq!(filter.n_set(), 1);
        }
    }
}
