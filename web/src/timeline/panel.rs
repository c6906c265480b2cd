//! The panel beside the picture: the selected allocation or group, or the composition of the
//! window.

use super::Handle;
use crate::client;
use crate::components::copy_button::CopyButton;
use crate::components::focus::rescue;
use crate::components::icon::{Icon, IconView};
use crate::components::problem_note::ProblemNote;
use crate::format::{self, count};
use ::timeline::facts::{Composition, GroupFacts, GroupShare};
use ::timeline::{lanes, ticks};
use api::frames::FrameText;
use api::problem::Problem;
use api::routes;
use api::timeline::{BlockDetail, TensorDetail};
use api::view_state::{Picture, Selection, ViewState};
use leptos::prelude::*;
use std::sync::Arc;
use trace::code::is_framework;
use trace::tiles::with_caller;
use trace::trace::{BlockIdx, Origin, PoolId, PoolSize};
use trace::units::{EventIdx, Micros};

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
    view: Signal<ViewState>,
    /// Further content about a block.
    below_block: Callback<BlockIdx, AnyView>,
) -> impl IntoView {
    let selection = Memo::new(move |_| view.with(|view| view.selection));
    let content = move || {
        // A row that selects something goes away with the list that it is in.
        if holds_focus() {
            rescue(".panel");
        }
        match selection.get() {
            None => view! { <WindowContents handle=handle view=view/> }.into_any(),
            Some(Selection::Block(block)) => view! {
                <BlockPanel handle=handle block=block/>
                {below_block.run(block)}
            }
            .into_any(),
            Some(Selection::Group(key)) => view! { <GroupPanel handle=handle key=key/> }.into_any(),
        }
    };
    view! { <aside class="panel" aria-label="Details" tabindex="-1">{content}</aside> }
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
fn BlockPanel(handle: Handle, block: BlockIdx) -> impl IntoView {
    let loaded = fetched(handle, block);
    Effect::new(move |_| {
        let Loaded::There(detail) = loaded.get() else {
            return;
        };
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
            {size.to_string()} <small>{format::exact_bytes(size.get())}</small>
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

/// A name and a value.
type Fact = (String, String);

/// The facts about a block, in the order in which people ask for them. `since_start` gives the time
/// of an event position since the start of the trace, microseconds.
fn block_facts(detail: &BlockDetail, since_start: impl Fn(f64) -> Option<f64>) -> Vec<Fact> {
    let mut facts = Vec::new();
    if detail.requested != detail.size {
        let waste = detail.size.saturating_sub(detail.requested);
        let text = format!("{} ({waste} of rounding)", detail.requested);
        facts.push(("requested".to_owned(), text));
    }
    facts.extend(detail.tensor.iter().flat_map(tensor_facts));
    facts.extend(life_facts(detail, since_start));
    facts.extend(place_facts(detail));
    facts
}

/// What the engine knows about a tensor.
fn tensor_facts(tensor: &TensorDetail) -> Vec<Fact> {
    let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    let shape = match (&tensor.dtype, shape.is_empty()) {
        (Some(dtype), true) => format!("a number, {dtype}"),
        (Some(dtype), false) => format!("{}, {dtype}", shape.join(" × ")),
        (None, _) => "no tensor".to_owned(),
    };
    let freed = || "nothing: it was freed".to_owned();
    let facts = [
        ("tensor", tensor.name.clone()),
        ("kept by", tensor.owner.clone().unwrap_or_else(freed)),
        ("shape", shape),
        ("role", tensor.role.replace('_', " ")),
        ("made by", tensor.op.clone()),
        ("module", tensor.module.clone()),
    ];
    let told = facts.into_iter().filter(|(_, value)| !value.is_empty());
    told.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// When it was allocated and freed.
fn life_facts(detail: &BlockDetail, since_start: impl Fn(f64) -> Option<f64>) -> Vec<Fact> {
    let when = |(event, _): (EventIdx, Micros)| {
        let time = since_start(f64::from(event.0)).map(|t| ticks::duration(t, 1e3));
        let event = count(u64::from(event.0));
        match time {
            Some(time) => format!("event {event}, {time}"),
            None => format!("event {event}"),
        }
    };
    let between = |(from, t0): (EventIdx, Micros), (to, t1): (EventIdx, Micros)| {
        let events = count(u64::from(to.0 - from.0));
        format!("{events} events, {}", ticks::span((t1.0 - t0.0) as f64))
    };
    let before = || "before the trace began".to_owned();
    let freed = match (detail.free_requested, detail.origin) {
        (Some(free), _) => when(free),
        (None, Origin::Preexisting) => "not in this trace: there before and after".to_owned(),
        (None, _) => "not in this trace: live at its end".to_owned(),
    };
    let mut facts = vec![
        (
            "allocated".to_owned(),
            detail.alloc.map_or_else(before, when),
        ),
        ("freed".to_owned(), freed),
    ];
    if let (Some(from), Some(to)) = (detail.alloc, detail.free_requested) {
        facts.push(("lived".to_owned(), between(from, to)));
    }
    if let (Some(from), Some(to)) = (detail.free_requested, detail.free_completed)
        && to.0.0 > from.0.0 + 1
    {
        facts.push(("pending".to_owned(), between(from, to)));
    }
    facts
}

/// Where it lies, and what the trace says about it.
fn place_facts(detail: &BlockDetail) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    if let Some(step) = &detail.step {
        add("step", lanes::step_name(step).to_owned());
    }
    let stream = match detail.stream {
        0 => "default".to_owned(),
        stream => format!("{stream:#x}"),
    };
    add("stream", stream);
    let size = match detail.pool_size {
        PoolSize::Small => "small",
        PoolSize::Large => "large",
    };
    let pool = match detail.pool {
        PoolId(0, 0) => size.to_owned(),
        PoolId(a, b) => format!("{size}, private ({a}, {b})"),
    };
    add("pool", pool);
    add("address", detail.addr.to_string());
    if let Some(forward) = &detail.forward {
        let on = forward.evidence.replace('_', " ");
        add(
            "backward of",
            format!("{} (inferred from {on})", forward.label),
        );
    }
    for (name, value) in &detail.notes {
        add(name, value.clone());
    }
    facts
}

/// A stack as text, innermost first, with frames in Python's notation.
fn stack_text(frames: &[FrameText]) -> String {
    let lines = frames
        .iter()
        .map(|f| format!("{} ({}:{})", f.name, f.filename, f.line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The last part of a path, which distinguishes files.
fn short_path(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    match slashes.nth(1) {
        Some(at) => &path[at + 1..],
        None => path,
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
                        true => "From before the recording: its allocation was not recorded.",
                        false => "No stack was recorded for this allocation.",
                    };
                    view! { <p class="muted">{why}</p> }
                })}
            <ol>{rows}</ol>
        </section>
    }
}

#[component]
fn GroupPanel(handle: Handle, key: u32) -> impl IntoView {
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
        Some(facts) => group_facts(&facts).into_any(),
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

fn group_facts(facts: &GroupFacts) -> impl IntoView + use<> {
    let mut rows = vec![(
        "blocks".to_owned(),
        format!("{} live in this window", count(facts.blocks)),
    )];
    if let Some(event) = facts.peak_event {
        rows.push((
            "peak at".to_owned(),
            format!("event {}", count(u64::from(event.0))),
        ));
    }
    rows.push((
        "counted over".to_owned(),
        format!(
            "events {} – {}",
            count(facts.events.0),
            count(facts.events.1.saturating_sub(1))
        ),
    ));
    view! {
        <p class="panel-label">{with_caller(&facts.label, &facts.caller)}</p>
        <p class="panel-size">
            {facts.peak.to_string()} <small>"at its highest here"</small>
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
fn WindowContents(handle: Handle, view: Signal<ViewState>) -> impl IntoView {
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
    let picture = Memo::new(move |_| view.with(|view| view.picture));
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
    let pending = (composition.pending.get() > 0).then(|| {
        view! {
            <li class="share-row">
                <span class="swatch pending"></span>
                <span class="share-name">"freed, still in use by another stream"</span>
                <span class="share-bytes">{composition.pending.to_string()}</span>
            </li>
        }
    });
    view! {
        <p class="panel-size">
            {total.to_string()}
            <small>
                {format!("at event {}, the highest in view", count(u64::from(composition.event.0)))}
            </small>
        </p>
        <ul class="shares">{rows}{small}{pending}</ul>
    }
}

fn share(handle: Handle, group: &GroupShare, total: u64) -> impl IntoView + use<> {
    let GroupShare {
        key,
        label,
        caller,
        colour,
        bytes,
    } = group.clone();
    let width = format!(
        "width: {:.1}%",
        bytes.get() as f64 / total.max(1) as f64 * 100.0
    );
    let swatch = format!("background: {}", colour.css());
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

#[cfg(test)]
mod tests {
    use super::*;
    use trace::units::{Bytes, DeviceAddr};

    fn detail() -> BlockDetail {
        BlockDetail {
            block: 7,
            addr: DeviceAddr(0x7f00_0000),
            requested: Bytes(1000),
            size: Bytes(1024),
            origin: Origin::Allocated,
            alloc: Some((EventIdx(10), Micros(1_000_000))),
            free_requested: Some((EventIdx(40), Micros(1_002_500))),
            free_completed: Some((EventIdx(41), Micros(1_002_500))),
            step: Some("step 3".to_owned()),
            stream: 0,
            pool: PoolId(0, 0),
            pool_size: PoolSize::Small,
            notes: vec![],
            alloc_stack: vec![],
            free_stack: vec![],
            forward: None,
            tensor: None,
        }
    }

    fn value(facts: &[(String, String)], name: &str) -> Option<String> {
        facts.iter().find(|f| f.0 == name).map(|f| f.1.clone())
    }

    #[test]
    fn a_life_is_told_in_events_and_time() {
        let facts = block_facts(&detail(), |event| Some(event * 100.0));
        assert_eq!(
            value(&facts, "lived").as_deref(),
            Some("30 events, 2.50 ms")
        );
        assert_eq!(
            value(&facts, "allocated").as_deref(),
            Some("event 10, 1 ms")
        );
        assert_eq!(
            value(&facts, "requested").as_deref(),
            Some("0.98 KiB (24 B of rounding)")
        );
        assert_eq!(
            value(&facts, "pending"),
            None,
            "completed at the next event"
        );
    }

    #[test]
    fn what_the_trace_does_not_show_is_said() {
        let mut old = detail();
        (old.origin, old.alloc) = (Origin::Preexisting, None);
        (old.free_requested, old.free_completed) = (None, None);
        let facts = block_facts(&old, |_| None);
        assert_eq!(
            value(&facts, "allocated").as_deref(),
            Some("before the trace began")
        );
        assert!(
            value(&facts, "freed")
                .unwrap()
                .starts_with("not in this trace")
        );
        assert_eq!(value(&facts, "lived"), None);
    }

    #[test]
    fn a_tensor_of_the_engine_says_who_keeps_it() {
        let mut kept = detail();
        kept.tensor = Some(TensorDetail {
            name: "vision.3: output".to_owned(),
            op: String::new(),
            module: "vision.3".to_owned(),
            shape: vec![1, 1024, 1152],
            dtype: Some("bfloat16".to_owned()),
            role: "restored".to_owned(),
            made_step: Some(4),
            owner: Some("held by bwd_tensor_stash[1663] since step 4".to_owned()),
        });
        let facts = block_facts(&kept, |_| None);
        assert_eq!(
            value(&facts, "kept by").as_deref(),
            Some("held by bwd_tensor_stash[1663] since step 4")
        );
        assert_eq!(
            value(&facts, "shape").as_deref(),
            Some("1 × 1024 × 1152, bfloat16")
        );
        assert_eq!(value(&facts, "made by"), None, "the program did");
        assert_eq!(value(&block_facts(&detail(), |_| None), "tensor"), None);
    }

    #[test]
    fn a_path_keeps_its_telling_end() {
        assert_eq!(short_path("/a/b/models/llama.py"), "models/llama.py");
        assert_eq!(short_path("train.py"), "train.py");
        assert!(is_framework("/x/site-packages/torch/nn/functional.py", 9));
        assert!(!is_framework("/home/me/train.py", 9));
    }
}
