//! The panel beside the picture: the selected allocation or group, or the composition of the
//! window.

use super::Handle;
use crate::client;
use crate::components::copy_button::CopyButton;
use crate::components::focus::rescue;
use crate::components::icon::{Icon, IconView};
use crate::components::problem_note::ProblemNote;
use crate::format::{count, exact_bytes};
use crate::url_state::UrlState;
use ::timeline::facts::{Composition, GroupFacts, GroupShare};
use api::frames::FrameText;
use api::problem::Problem;
use api::routes;
use api::timeline::BlockDetail;
use api::view_state::{Picture, Selection, ViewState};
use leptos::prelude::*;
use presentation::components::frames::{short_path, stack_text};
use presentation::timeline::facts::{Fact, block_facts, group_facts, group_told, told};
use std::sync::Arc;
use trace::code::is_framework;
use trace::tiles::with_caller;
use trace::trace::BlockIdx;
use trace::units::Bytes;

/// An answer: being fetched, there, or refused.
#[derive(Clone)]
enum Loaded {
    Loading,
    There(Arc<BlockDetail>),
    Failed(Problem),
}

/// The panel.
#[component]
pub fn SelectionPanel(
    handle: Handle,
    view: UrlState<ViewState>,
    /// Further content about a block.
    below_block: Callback<BlockIdx, AnyView>,
) -> impl IntoView {
    let selection = Memo::new(move |_| view.state().with(|view| view.selection));
    // Keys in the picture select without leaving it.
    let said = RwSignal::new(String::new());
    let content = move || {
        // A row that selects something goes away with the list that it is in.
        if holds_focus() {
            rescue(".panel");
        }
        match selection.get() {
            None => {
                said.set(String::new());
                view! { <WindowContents handle=handle view=view/> }.into_any()
            }
            Some(Selection::Block(block)) => view! {
                <BlockPanel handle=handle block=block said=said/>
                {below_block.run(block)}
            }
            .into_any(),
            Some(Selection::Group(key)) => {
                view! { <GroupPanel handle=handle key=key said=said/> }.into_any()
            }
        }
    };
    view! {
        <aside class="panel" aria-label="Details" tabindex="-1">{content}</aside>
        <p class="visually-hidden" aria-live="polite">{said}</p>
    }
}

/// Whether something in the panel has the focus.
fn holds_focus() -> bool {
    let focused = document().active_element();
    let panel = focused.and_then(|focused| focused.closest(".panel").ok().flatten());
    panel.is_some()
}

#[component]
fn PanelHead(handle: Handle, #[prop(into)] title: String) -> impl IntoView {
    let show = move |_| {
        handle.with(|driver| driver.show_selection());
    };
    view! {
        <header class="panel-head">
            <h2>{title}</h2>
            <button class="link-button" title="Show it in the picture (Enter)" on:click=show>
                "Show"
            </button>
            <button
                class="icon-button"
                aria-label="Close"
                title="Close (Esc)"
                on:click=move |_| handle.select(None)
            >
                <IconView icon=Icon::Close/>
            </button>
        </header>
    }
}

/// A block; fetched whenever another one is selected.
fn fetched(handle: Handle, block: BlockIdx) -> RwSignal<Loaded> {
    let loaded = RwSignal::new(Loaded::Loading);
    let path = handle.with(|driver| {
        let source = driver.source();
        source.asks(routes::block(&source.run, source.device, block))
    });
    if let Some(path) = path {
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            let answer = client::get::<BlockDetail>(&path).await;
            let _ = loaded.try_set(match answer {
                Ok(detail) => Loaded::There(Arc::new(detail)),
                Err(problem) => Loaded::Failed(problem),
            });
        });
    }
    loaded
}

#[component]
fn BlockPanel(handle: Handle, block: BlockIdx, said: RwSignal<String>) -> impl IntoView {
    let loaded = fetched(handle, block);
    Effect::new(move |_| {
        let Loaded::There(detail) = loaded.get() else {
            return;
        };
        said.set(told(&detail));
        // The block's life is marked on the axis, even if the block is too small to be seen.
        let end = detail.free_requested.map(|(event, _)| event);
        handle.with(|driver| {
            let end = end.map_or(driver.ask(|m| m.n_events()), |event| event.0);
            let start = detail.alloc.map_or(0, |(event, _)| event.0);
            let life = (f64::from(start), f64::from(end));
            driver.change_overlay(|model| model.set_selected_life(Some(life)));
        });
    });
    let body = move || match loaded.get() {
        Loaded::Loading => view! { <div class="panel-skeleton skeleton-row"></div> }.into_any(),
        Loaded::Failed(problem) => view! { <ProblemNote problem=problem/> }.into_any(),
        Loaded::There(detail) => view! { <BlockFacts handle=handle detail=detail/> }.into_any(),
    };
    view! {
        <PanelHead handle=handle title="Allocation"/>
        {body}
    }
}

#[component]
fn BlockFacts(handle: Handle, detail: Arc<BlockDetail>) -> impl IntoView {
    let time_at = move |event: f64| {
        handle
            .with(|driver| driver.ask(|model| model.time_at(event)))
            .flatten()
    };
    let block = Arc::clone(&detail);
    let facts = Memo::new(move |_| {
        // The times come with the picture, which may come after the block.
        handle.outputs.settled.track();
        block_facts(&block, time_at)
    });
    let size = detail.size;
    view! {
        <p class="panel-size">
            {size.to_string()} <small>{exact_beside(size)}</small>
        </p>
        <dl class="facts">{move || facts.get().into_iter().map(fact).collect_view()}</dl>
        <StackView
            title="Allocated at"
            frames=detail.alloc_stack.clone()
            from_before=detail.alloc.is_none()
        />
        {(!detail.free_stack.is_empty())
            .then(|| view! { <StackView title="Freed at" frames=detail.free_stack.clone()/> })}
    }
}

fn fact((name, value): Fact) -> impl IntoView {
    view! {
        <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
        </div>
    }
}

#[component]
fn StackView(
    title: &'static str,
    frames: Vec<FrameText>,
    /// Whether the block was there before the recording.
    #[prop(optional)]
    from_before: bool,
) -> impl IntoView {
    let text = stack_text(&frames);
    let own = frames
        .iter()
        .position(|f| !is_framework(&f.filename, f.line));
    let empty = frames.is_empty();
    let rows = frames.into_iter().enumerate().map(|(i, frame)| {
        let place = match frame.line {
            0 => short_path(&frame.filename).to_owned(),
            line => format!("{}:{line}", short_path(&frame.filename)),
        };
        let framework = is_framework(&frame.filename, frame.line);
        view! {
            <li class:framework=framework class:own=own == Some(i)>
                <code>{frame.name}</code>
                <span class="frame-place" title=frame.filename>{place}</span>
            </li>
        }
    });
    let rows = rows.collect_view();
    view! {
        <section class="stack">
            <header>
                <h3>{title}</h3>
                {(!empty).then(|| view! { <CopyButton text=text what="the stack"/> })}
            </header>
            {empty
                .then(|| {
                    let why = match from_before {
                        true => "Allocated before the recording: by what was not recorded.",
                        false => "No stack was recorded for this allocation.",
                    };
                    view! { <p class="muted">{why}</p> }
                })}
            <ol>{rows}</ol>
        </section>
    }
}

#[component]
fn GroupPanel(handle: Handle, key: u32, said: RwSignal<String>) -> impl IntoView {
    let facts = Memo::new(move |_| {
        handle.outputs.settled.track();
        handle
            .with(|driver| driver.ask(|model| model.group(key)))
            .flatten()
    });
    let member = Memo::new(move |_| facts.with(|f| f.as_ref().and_then(|f| f.member)));
    let stack = move || {
        member
            .get()
            .map(|block| view! { <MemberStack handle=handle block=block/> })
    };
    let body = move || match facts.get() {
        Some(facts) => {
            // Once: its numbers change with the window.
            let name = [&with_caller(&facts.label, &facts.caller), ":"].concat();
            if !said.with_untracked(|said| said.starts_with(&name)) {
                said.set(group_told(&facts));
            }
            group_view(&facts).into_any()
        }
        None => {
            view! { <p class="muted">"Nothing of this group is live in the window."</p> }.into_any()
        }
    };
    view! {
        <PanelHead handle=handle title="Group"/>
        {body}
        {stack}
    }
}

/// All digits of a size, if it is not written with them already.
fn exact_beside(size: Bytes) -> Option<String> {
    let exact = exact_bytes(size.get());
    (exact != size.to_string()).then_some(exact)
}

fn group_view(facts: &GroupFacts) -> impl IntoView + use<> {
    let rows = group_facts(facts);
    view! {
        <p class="panel-label">{with_caller(&facts.label, &facts.caller)}</p>
        <p class="panel-size">
            {facts.peak.to_string()}
            <small>{exact_beside(facts.peak)} " at its highest here"</small>
        </p>
        <dl class="facts">{rows.into_iter().map(fact).collect_view()}</dl>
    }
}

#[component]
fn MemberStack(handle: Handle, block: BlockIdx) -> impl IntoView {
    let loaded = fetched(handle, block);
    move || match loaded.get() {
        Loaded::There(detail) => {
            let frames = detail.alloc_stack.clone();
            view! {
                <StackView title="Its largest block, allocated at" frames=frames/>
                <button
                    class="link-button"
                    on:click=move |_| handle.select(Some(Selection::Block(block)))
                >
                    "Select that block"
                </button>
            }
            .into_any()
        }
        Loaded::Loading | Loaded::Failed(_) => ().into_any(),
    }
}

#[component]
fn WindowContents(handle: Handle, view: UrlState<ViewState>) -> impl IntoView {
    let composition = Memo::new(move |_| {
        handle.outputs.settled.track();
        handle
            .with(|driver| driver.ask(|model| model.composition()))
            .flatten()
    });
    let body = move || {
        composition
            .get()
            .map(|composition| contents(handle, &composition))
    };
    let picture = Memo::new(move |_| view.state().with(|view| view.picture));
    let hint = move || match (composition.with(Option::is_some), picture.get()) {
        (true, _) => Some("Click an allocation or a band for its stack."),
        (false, Picture::Lines) => Some("The mountain (M) shows what the memory consists of."),
        (false, Picture::Mountain) => None,
    };
    let is_coming = move || hint().is_none() && handle.outputs.problem.with(Option::is_none);
    view! {
        <header class="panel-head">
            <h2>"What is in memory"</h2>
        </header>
        {body}
        {move || hint().map(|hint| view! { <p class="muted panel-hint">{hint}</p> })}
        {move || is_coming().then(|| view! { <div class="panel-skeleton skeleton-row"></div> })}
    }
}

fn contents(handle: Handle, composition: &Composition) -> impl IntoView + use<> {
    let total = composition.total;
    let rows = composition
        .groups
        .iter()
        .map(|group| share(handle, group, total.get()));
    let rows = rows.collect_view();
    let base = composition.base;
    let small = (base.blocks > 0).then(|| {
        let text = format!("{} blocks that live throughout", count(base.blocks));
        view! {
            <li class="share-row">
                <span class="swatch rest"></span>
                <span class="share-name">{text}</span>
                <span class="share-bytes">{base.bytes.to_string()}</span>
            </li>
        }
    });
    // Not one of those that the total is the sum of.
    let pending = (composition.pending.get() > 0).then(|| {
        view! {
            <ul class="shares">
                <li class="share-row">
                    <span class="swatch pending"></span>
                    <span class="share-name">"and freed, still in use by another stream"</span>
                    <span class="share-bytes">{composition.pending.to_string()}</span>
                </li>
            </ul>
        }
    });
    let [total, when] = composition.said();
    view! {
        <p class="panel-size">{total} <small>{when}</small></p>
        <ul class="shares">{rows}{small}</ul>
        {pending}
    }
}

fn share(handle: Handle, group: &GroupShare, total: u64) -> impl IntoView + use<> {
    let GroupShare {
        key,
        label,
        caller,
        css,
        bytes,
        ..
    } = group.clone();
    let width = format!(
        "width: {:.1}%",
        bytes.get() as f64 / total.max(1) as f64 * 100.0
    );
    let swatch = format!("background: {css}");
    let bar = format!("{width}; {swatch}");
    let title = with_caller(&label, &caller);
    let caller = (!caller.is_empty())
        .then(|| view! { <span class="share-caller">{format!("from {caller}")}</span> });
    view! {
        <li>
            <button
                class="share-row"
                title=title
                on:click=move |_| handle.select(Some(Selection::Group(key)))
            >
                <span class="swatch" prop:style=swatch></span>
                <span class="share-name">{label}</span>
                <span class="share-bytes">{bytes.to_string()}</span>
                {caller}
                <span class="share-bar" prop:style=bar></span>
            </button>
        </li>
    }
}
