//! What if: other settings, another limit, no leaks, or without some call sites.

use super::Asker;
use super::answer::{Answer, ask, refused};
use super::honesty::Honesty;
use super::what_if_chart::WhatIfChart;
use crate::components::copy_button::CopyButton;
use crate::components::focus;
use crate::components::prose::Prose;
use crate::format::{self, count};
use api::alive::Alive;
use api::routes;
use api::runs::DeviceSummary;
use api::what_if::{Conditions, Replayed, WhatIf, WhatIfDrawn};
use leptos::prelude::*;
use presentation::questions::markdown;
use presentation::questions::sizes::exact;
use presentation::questions::what_if_tab::{
    SETTINGS, asked_limit, bad_limit, is_of_settings, limit_refused, most_at, text, tried,
    wrong_field,
};
use serde::Deserialize;
use std::sync::Arc;
use trace::alive::Dimension;
use trace::tiles::with_caller;
use trace::trace::Series;
use trace::units::Bytes;

/// How many call sites the list offers to leave out.
const SITES: usize = 12;

/// The tab.
#[component]
pub fn WhatIfTab(asker: Asker) -> impl IntoView {
    let asked = asker.memo(|state| state.what_if.clone());
    // After stopping an answer, the user asks again by changing something, or with the button.
    let stopped = RwSignal::new(false);
    // What was changed here is answered in sight, even if the form fills the screen.
    let changed = StoredValue::new(false);
    Effect::new(move |before: Option<()>| {
        asked.track();
        stopped.set(false);
        changed.set_value(before.is_some());
    });
    let answer = ask::<WhatIfDrawn>(move || {
        let conditions = asked.get();
        let is_sound = bad_limit(&conditions).is_none();
        let is_asked = conditions.is_any() && is_sound && !stopped.get() && !is_pinned(asker);
        is_asked.then(|| asker.path(|s| routes::what_if(&s.run, s.device, &conditions)))
    });
    Effect::new(move |_| {
        let is_there = answer.with(|answer| matches!(answer, Answer::There(_)));
        if is_there && changed.get_value() {
            changed.set_value(false);
            focus::show("#what-if-answer");
        }
    });
    let content = move || shown(asker, asked, answer, stopped);
    let words = Signal::derive(move || {
        let drawn = answer.with(Answer::shown);
        let query = asked.get().query();
        let asked = query.trim_start_matches('&');
        drawn.map_or_else(String::new, |drawn| {
            markdown::what_if(&asker.run_name(), asked, &drawn.answer)
        })
    });
    let copy = move || {
        answer
            .with(|answer| matches!(answer, Answer::There(_)))
            .then(|| {
                view! {
                    <CopyButton text=words what="the answer" label="Copy as Markdown"/>
                }
            })
    };
    view! {
        <div class="questions-head">
            <h2>"What if"</h2>
            {copy}
            <Honesty asker=asker/>
        </div>
        <p class="visually-hidden" aria-live="polite">{move || said(answer)}</p>
        <Advice asker=asker asked=asked/>
        {match is_pinned(asker) {
            true => not_of_pinned().into_any(),
            false => view! {
                <Form asker=asker asked=asked answer=answer/>
                <div
                    class="alive-view"
                    id="what-if-answer"
                    aria-busy=move || answer.with(Answer::is_waiting).to_string()
                >
                    {content}
                </div>
            }
            .into_any(),
        }}
    }
}

/// What is read out once it is there.
fn said(answer: RwSignal<Answer<WhatIfDrawn>>) -> Option<String> {
    answer.with(|answer| match answer {
        Answer::There(drawn) => Some(drawn.answer.sentence.clone()),
        _ => None,
    })
}

/// The answer, or what stands in its place.
fn shown(
    asker: Asker,
    asked: Memo<Conditions>,
    answer: RwSignal<Answer<WhatIfDrawn>>,
    stopped: RwSignal<bool>,
) -> AnyView {
    match answer.get() {
        // The form says it, at the field.
        Answer::Failed(problem) if asked.with(|asked| is_of_settings(asked, &problem)) => {
            ().into_any()
        }
        Answer::Failed(problem) => refused(problem),
        Answer::Unasked if stopped.get() => view! {
            <p class="questions-empty">
                "Stopped. "
                <button class="button" on:click=move |_| stopped.set(false)>"Ask again"</button>
            </p>
        }
        .into_any(),
        Answer::Unasked => view! {
            <p class="muted questions-empty">
                "Change something above: the recorded requests are then replayed under it."
            </p>
        }
        .into_any(),
        Answer::Waiting(before) => view! {
            <p class="questions-empty">
                {replaying(asker)}
                <button class="button" on:click=move |_| stopped.set(true)>"Stop"</button>
            </p>
            {before.map(|before| answered(asker, before))}
        }
        .into_any(),
        Answer::There(drawn) => answered(asker, drawn),
    }
}

fn is_pinned(asker: Asker) -> bool {
    asker.device.with_value(|device| device.device.is_pinned())
}

/// Shown instead of the form.
fn not_of_pinned() -> impl IntoView {
    view! {
        <p class="muted questions-empty">
            "Pinned host memory has an allocator of its own, which is not replayed: the settings "
            "and limits of a device do not change it. Choose a device above to ask what if."
        </p>
    }
}

fn n_events(asker: Asker) -> u64 {
    asker.device.with_value(|device| u64::from(device.events))
}

fn replaying(asker: Asker) -> String {
    format!("Replaying {} events … ", count(n_events(asker)))
}

fn change(asker: Asker, change: impl FnOnce(&mut Conditions)) {
    asker.view.update(|state| change(&mut state.what_if));
}

/// What is wrong with a field.
fn wrong(asked: &Conditions, answer: &Answer<WhatIfDrawn>) -> Option<String> {
    let refused = match answer {
        Answer::Failed(problem) => Some(problem),
        _ => None,
    };
    wrong_field(asked, refused)
}

/// The form with the changed conditions.
#[component]
fn Form(
    asker: Asker,
    asked: Memo<Conditions>,
    answer: RwSignal<Answer<WhatIfDrawn>>,
) -> impl IntoView {
    let limit = move || asked.with(|a| a.limit.clone()).unwrap_or_default();
    let conf = move || asked.with(|a| a.alloc_conf.clone()).unwrap_or_default();
    let set_limit = move |event| {
        let limit = text(&event_target_value(&event));
        change(asker, |a| a.limit = limit);
    };
    let set_conf = move |event| {
        let conf = text(&event_target_value(&event));
        change(asker, |a| a.alloc_conf = conf);
    };
    let set_leaks = move |event| change(asker, |a| a.without_leaks = event_target_checked(&event));
    let bad_limit = move || asked.with(bad_limit).map(|_| "true");
    let why = move || answer.with(|answer| asked.with(|asked| wrong(asked, answer)));
    let bad_conf = move || (bad_limit().is_none() && why().is_some()).then_some("true");
    let why = move || why().map(|why| view! { <Prose text=why/> });
    let settings = SETTINGS.map(|setting| view! { <option value=setting></option> });
    view! {
        <div class="controls" role="toolbar" aria-label="What is changed">
            <label class="control" title="A smaller or larger card, or a memory fraction">
                "Limit"
                <input
                    class="input"
                    size="9"
                    placeholder="e.g. 24 GiB"
                    aria-invalid=bad_limit
                    aria-describedby="field-wrong"
                    prop:value=limit
                    on:change=set_limit
                />
            </label>
            <label class="control" title="As in PYTORCH_CUDA_ALLOC_CONF">
                "Allocator"
                <input
                    class="input wide-field"
                    size="32"
                    list="alloc-conf"
                    placeholder="as recorded"
                    aria-invalid=bad_conf
                    aria-describedby="field-wrong"
                    prop:value=conf
                    on:change=set_conf
                />
                <datalist id="alloc-conf">{settings}</datalist>
            </label>
            <label class="control">
                <input
                    type="checkbox"
                    prop:checked=move || asked.with(|a| a.without_leaks)
                    on:change=set_leaks
                />
                "Leaks given back when their step ends"
            </label>
            <button
                class="button"
                disabled=move || !asked.with(Conditions::is_any)
                on:click=move |_| change(asker, |a| *a = Conditions::default())
            >
                "As recorded"
            </button>
        </div>
        <p class="field-problem" id="field-wrong" role="alert">{why}</p>
        <Sites asker=asker asked=asked/>
    }
}

/// The call sites that hold most at the peak, to be left out.
#[component]
fn Sites(asker: Asker, asked: Memo<Conditions>) -> impl IntoView {
    let allocated = |device: &DeviceSummary| device.series[Series::Allocated as usize];
    let peak = asker
        .device
        .with_value(|device| allocated(device).peak_event);
    let alive = ask::<Alive>(move || {
        let by = Dimension::Site;
        Some(asker.path(|s| match peak {
            Some(peak) => routes::alive(&s.run, s.device, peak, by),
            None => routes::alive_at_start(&s.run, s.device, by),
        }))
    });
    let row = move |key: String, label: String, bytes: Bytes| {
        let is_gone = {
            let key = key.clone();
            move || asked.with(|a| a.gone().contains(&key.as_str()))
        };
        view! {
            <li>
                <label class="control left-out-site">
                    <input
                        type="checkbox"
                        prop:checked=is_gone
                        on:change=move |_| change(asker, |a| a.toggle(&key))
                    />
                    <span class="left-out-name">{label}</span>
                    <span class="muted">{bytes.to_string()}</span>
                </label>
            </li>
        }
    };
    let rows = move || {
        let alive = alive.with(Answer::shown)?;
        let rows = alive.groups.iter().take(SITES);
        let rows = rows.map(|g| {
            // Two sites may be one line of a framework: who called it tells them apart.
            let name = with_caller(&g.label, &g.caller);
            row(g.key.clone(), name, g.tally.bytes)
        });
        Some(rows.collect_view())
    };
    let n_gone = move || match asked.with(|a| a.gone().len()) {
        0 => "Leave out call sites".to_owned(),
        n => format!("Leave out call sites ({n} left out)"),
    };
    view! {
        <details class="left-out">
            <summary>{n_gone}</summary>
            <p class="muted">{most_at(peak)}</p>
            <ul>{rows}</ul>
        </details>
    }
}

/// The parts of an [`api::explain::Explanation`] that are shown here: the types for all of it would
/// be larger than the rest of this tab.
#[derive(Deserialize)]
struct Explained {
    device: Option<DeviceExplained>,
}

#[derive(Deserialize)]
struct DeviceExplained {
    out_of_memory: Option<Failure>,
    to_try: Vec<ToTry>,
}

#[derive(Deserialize)]
struct Failure {
    why: String,
    what_would_have_helped: String,
    limit_at_least: Option<Bytes>,
    remedies: Vec<Remedy>,
}

#[derive(Deserialize)]
struct Remedy {
    change: String,
}

#[derive(Deserialize)]
struct ToTry {
    sentence: String,
}

/// The settings that would have helped, to be tried at a press.
fn tries(
    asker: Asker,
    asked: Memo<Conditions>,
    failure: &Failure,
    limit: Option<String>,
) -> AnyView {
    let limit = limit.or_else(|| failure.limit_at_least.map(exact));
    let tries = failure.remedies.iter().filter_map(|remedy| {
        let name = remedy.change.clone();
        let conditions = tried(&name)?;
        let wanted = Conditions {
            limit: limit.clone(),
            ..conditions
        };
        let looked_for = wanted.clone();
        let pressed = move || asked.with(|asked| *asked == looked_for).to_string();
        let choose = move |_| {
            let wanted = wanted.clone();
            change(asker, |a| *a = wanted);
        };
        Some(view! {
            <button class="button" aria-pressed=pressed on:click=choose>{name}</button>
        })
    });
    tries.collect_view().into_any()
}

/// Why memory ran out, or what to try.
#[component]
fn Advice(asker: Asker, asked: Memo<Conditions>) -> impl IntoView {
    let limit = Memo::new(move |_| asked.with(asked_limit));
    let under = ask::<Explained>(move || {
        let limit = limit.get()?;
        Some(asker.path(|s| routes::explain_under(&s.run, s.device, &limit)))
    });
    // The recording may contradict the limit. What is said without one is better than nothing.
    let refused = Memo::new(move |_| {
        limit.get()?;
        under.with(|answer| match answer {
            Answer::Failed(problem) => limit_refused(problem),
            _ => None,
        })
    });
    let is_plain = Memo::new(move |_| limit.with(Option::is_none) || refused.with(Option::is_some));
    let plain = ask::<Explained>(move || {
        let wanted = is_plain.get();
        wanted.then(|| asker.path(|s| routes::explain(&s.run, s.device, None)))
    });
    let note = move || {
        refused
            .get()
            .map(|text| view! { <p class="muted">{text}</p> })
    };
    // What was said before stands until the answer comes: the form below must not jump.
    let before = StoredValue::new(None::<Arc<Explained>>);
    let said = move || {
        let answer = match is_plain.get() {
            true => plain.with(Answer::shown),
            false => under.with(Answer::shown),
        };
        let explanation = answer.or_else(|| before.get_value())?;
        before.set_value(Some(Arc::clone(&explanation)));
        let told_limit = limit.get().filter(|_| !is_plain.get());
        let device = explanation.device.as_ref()?;
        let Some(failure) = &device.out_of_memory else {
            let rows = device.to_try.iter().map(|advice| {
                view! { <li><Prose text=advice.sentence.clone()/></li> }
            });
            return Some(view! { <ul class="advice">{rows.collect_view()}</ul> }.into_any());
        };
        let tries = tries(asker, asked, failure, told_limit);
        Some(
            view! {
                <div class="advice">
                    <h3>"Why it ran out of memory"</h3>
                    <p><Prose text=failure.why.clone()/></p>
                    <h3>"What would have helped"</h3>
                    <p><Prose text=failure.what_would_have_helped.clone()/></p>
                    <div class="controls advice-tries">{tries}</div>
                </div>
            }
            .into_any(),
        )
    };
    view! {
        {note}
        {said}
    }
}

fn answered(asker: Asker, drawn: Arc<WhatIfDrawn>) -> AnyView {
    let answer = &drawn.answer;
    view! {
        <p class="alive-summary"><Prose text=answer.sentence.clone()/></p>
        {answer.otherwise.in_words().map(|text| view! { <p class="muted">{text}</p> }.into_any())}
        <WhatIfChart drawn=Arc::clone(&drawn) n_events=n_events(asker)/>
        {table(answer)}
        <p class="muted">{answer.trust.clone()}</p>
    }
    .into_any()
}

fn table(answer: &WhatIf) -> AnyView {
    let recorded = &answer.recorded;
    let second = answer.at_recorded_limit.as_ref();
    let cell = |text: String| view! { <td class="num">{text}</td> }.into_any();
    let row = |name: &'static str, was: AnyView, is: &dyn Fn(&Replayed) -> AnyView| {
        let second = second.map(is);
        view! {
            <tr>
                <th scope="row">{name}</th>
                {was}
                {is(&answer.what_if)}
                {second}
            </tr>
        }
    };
    let size_as = |bytes: Bytes, told: String| {
        let exact = format::exact_bytes(bytes.get());
        view! { <td class="num" title=exact>{told}</td> }.into_any()
    };
    let size = |bytes: Bytes| size_as(bytes, bytes.to_string());
    let peak = |series: Series, bytes: Bytes| size_as(bytes, recorded.told_peak(series, bytes));
    let failed = |place: &Option<String>| cell(place.clone().unwrap_or_else(|| "no".to_owned()));
    let limit = match recorded.limit {
        Some(limit) => limit.in_words(),
        None => "none shows".to_owned(),
    };
    let limits = |r: &Replayed| match r.limit {
        Some(limit) => size(limit),
        None => cell("none".to_owned()),
    };
    view! {
        <div class="table-frame" tabindex="0" role="region" aria-label="Recorded, and what if">
            <table class="share-table what-if-table">
                <thead>
                    <tr>
                        <td></td>
                        <th scope="col" class="num">"Recorded"</th>
                        <th scope="col" class="num">"What if"</th>
                        {second.map(|_| view! {
                            <th scope="col" class="num">"at the recorded limit"</th>
                        })}
                    </tr>
                </thead>
                <tbody>
                    {row("Limit", cell(limit), &limits)}
                    {row("Allocated, peak", peak(Series::Allocated, recorded.peak_allocated), &|r| {
                        size(r.peak_allocated)
                    })}
                    {row("Reserved, peak", peak(Series::Reserved, recorded.peak_reserved), &|r| {
                        let range = r.range_in_words(|bytes| bytes.to_string());
                        size_as(r.peak_reserved, format!("{}{range}", r.peak_reserved))
                    })}
                    {row("Retries with an empty cache", cell("–".to_owned()), &|r| {
                        cell(count(r.retries))
                    })}
                    {row("Out of memory", failed(&recorded.oom_place), &|r| failed(&r.oom_place))}
                </tbody>
            </table>
        </div>
    }
    .into_any()
}
