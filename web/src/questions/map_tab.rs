//! Where memory lies at a moment: the segments of each pool, the blocks in use, and the gaps.

use super::Asker;
use super::answer::{Answer, follow, refused};
use super::growth_chart::fractions;
use super::honesty::Honesty;
use super::room_chart::RoomChart;
use crate::format::{self, count};
use ::timeline::lanes::step_name;
use api::memory_map::{MemoryMap, PoolMap};
use api::routes;
use api::runs::DeviceSummary;
use api::view_state::{Selection, When};
use leptos::prelude::*;
use presentation::questions::map_tab::{blocks, in_use, readout};
use presentation::questions::picture::middle;
use presentation::questions::strips::{Hit, Strips, WIDTH, moved};
use std::sync::Arc;
use trace::trace::Series;
use trace::units::{Bytes, EventIdx};
use web_sys::{KeyboardEvent, MouseEvent};

/// Pixels of a unit of height.
const PIXELS: f64 = 1.2;

/// The tab.
#[component]
pub fn MapTab(asker: Asker) -> impl IntoView {
    let last = asker.last_event();
    let peak = |device: &DeviceSummary| device.series[Series::Reserved as usize].peak_event;
    let first = asker.device.with_value(peak).unwrap_or(last);
    let chosen = asker.memo(move |state| state.at.map_or(first, When::nearest).min(last));
    let at = Memo::new(move |_| {
        asker
            .pointed
            .get()
            .unwrap_or_else(|| chosen.get())
            .min(last)
    });
    let map = follow::<MemoryMap>(move || {
        asker.path(|s| routes::memory_map(&s.run, s.device, asker.moment(at.get())))
    });
    let slide = move |event| {
        if let Ok(event) = event_target_value(&event).parse() {
            asker.go_to(EventIdx(event));
        }
    };
    let middle = move |_| {
        let state = asker.view.state();
        asker.go_to(state.with(|state| middle(state, last)));
    };
    let content = move || match map.get() {
        Answer::Failed(problem) => refused(problem),
        answer => match answer.shown() {
            Some(map) => pools(asker, &map),
            None => view! { <div class="skeleton-row growth-skeleton"></div> }.into_any(),
        },
    };
    let moments = asker.has_events().then(|| {
        view! {
            <div class="controls" role="toolbar" aria-label="Moment">
                <label class="control map-slider">
                    {move || format!("After event {}", count(u64::from(at.get().0)))}
                    <input
                        type="range"
                        min="0"
                        max=last.0.to_string()
                        prop:value=move || at.get().0.to_string()
                        on:input=slide
                    />
                </label>
                <button
                    class="button"
                    title="The event in the middle of the picture"
                    on:click=middle
                >
                    "Middle of the picture"
                </button>
                <span class="muted">"Or point at the picture above: the map follows."</span>
            </div>
            <RoomChart asker=asker at=at/>
        }
    });
    view! {
        <div class="questions-head">
            <h2>"Where memory lies"</h2>
            <Honesty asker=asker/>
        </div>
        {moments}
        <div class="alive-view" aria-busy=move || map.with(Answer::is_waiting).to_string()>
            {content}
        </div>
    }
}

fn pools(asker: Asker, map: &MemoryMap) -> AnyView {
    let Some(pools) = &map.pools else {
        return view! {
            <p class="muted questions-empty">
                "Segments are missing from this recording: what is known of them does not sum to \
                 reserved memory, so a map would be wrong."
            </p>
        }
        .into_any();
    };
    let sum = |of: fn(&PoolMap) -> Bytes| pools.iter().map(of).sum::<Bytes>();
    let step = map.step.as_deref();
    let step = step.map_or_else(String::new, |step| format!(", in {}", step_name(step)));
    let when = match map.event {
        Some(event) => format!("After event {}", count(u64::from(event.0))),
        None => "In the recorded state".to_owned(),
    };
    let kept = match sum(|p| p.kept) {
        Bytes::ZERO => String::new(),
        kept => format!(", {kept} in whole segments that private pools keep"),
    };
    let summary = format!(
        "{when}{step}: {} reserved, {}. Of the rest {} lie in whole segments, which \
         can be given back, and {} between blocks in use{kept}.",
        sum(|p| p.reserved),
        in_use(pools),
        sum(|p| p.cached),
        sum(|p| p.split.saturating_sub(p.kept)),
    );
    let left_out = (map.segments_left_out > 0).then(|| {
        let n = format::plural(map.segments_left_out, "segment");
        view! { <p class="muted">{format!("{n} with many blocks are not drawn.")}</p> }
    });
    let pools = pools.iter().map(|pool| pool_view(asker, pool.clone()));
    view! {
        <p class="alive-summary">{summary}</p>
        <ul class="level-legend map-legend">
            <li class="used">"in use"</li>
            <li class="pending">"given back, another stream still uses it"</li>
            <li class="split">"free, between blocks"</li>
            <li class="cached">"free segment"</li>
        </ul>
        {left_out}
        {pools.collect_view()}
    }
    .into_any()
}

fn pool_view(asker: Asker, pool: PoolMap) -> AnyView {
    let strips = Strips::of(&pool);
    let head = format!(
        "{}: {} reserved in {}, {}, largest gap {}; a line is {}",
        pool.name,
        pool.reserved,
        format::plural(pool.segments.len() as u64, "segment"),
        in_use(std::slice::from_ref(&pool)),
        pool.largest_gap,
        Bytes(strips.per_line),
    );
    let pointed = RwSignal::new(None::<Hit>);
    let laid = Laid(Arc::new((strips, pool)));
    let shown = laid.clone();
    let words = move || match pointed.get() {
        Some(hit) => readout(&shown.0.1, hit),
        None => POINT.to_owned(),
    };
    view! {
        <figure class="map-pool">
            <h3>{head.clone()}</h3>
            {plot(asker, laid, head, pointed)}
            <figcaption class="growth-readout" aria-live="polite">{words}</figcaption>
        </figure>
    }
    .into_any()
}

/// A pool with its layout.
#[derive(Clone)]
struct Laid(Arc<(Strips, PoolMap)>);

impl Laid {
    fn hit(&self, event: &MouseEvent) -> Option<Hit> {
        let (x, y) = fractions(event)?;
        self.0.0.hit(&self.0.1, x, y)
    }

    /// The block at a point.
    fn block(&self, hit: Hit) -> Option<u32> {
        self.0.1.segments[hit.segment]
            .blocks
            .get(hit.block?)
            .copied()
    }

    /// The rectangle of a block, if it lies in this pool.
    fn outline(&self, block: u32) -> String {
        let (strips, pool) = &*self.0;
        strips.blocks(pool, |segment, at| segment.blocks[at] == block)
    }
}

fn plot(asker: Asker, laid: Laid, about: String, pointed: RwSignal<Option<Hit>>) -> AnyView {
    let (strips, pool) = &*laid.0;
    let height = strips.height();
    let (used, pending) = blocks(strips, pool);
    let paths = view! {
        <path class="map-cached" d=strips.segments(pool, true)></path>
        <path class="map-split" d=strips.segments(pool, false)></path>
        <path class="map-used" d=used></path>
        <path class="map-pending" d=pending></path>
        <path class="map-border" d=strips.borders()></path>
    };
    let chosen = asker.memo(|state| match state.selection {
        Some(Selection::Block(block)) => Some(block.0),
        _ => None,
    });
    let kept = StoredValue::new(laid.clone());
    let selected = move || {
        let path = kept.with_value(|laid| chosen.get().map(|block| laid.outline(block)))?;
        Some(view! { <path class="map-selected" d=path></path> })
    };
    let walked = move || {
        let hit = pointed.get()?;
        let block = hit.block?;
        let path = kept.with_value(|laid| laid.0.0.block(&laid.0.1, hit.segment, block));
        Some(view! { <path class="map-pointed" d=path></path> })
    };
    let hit = move |event: &MouseEvent| kept.with_value(|laid| laid.hit(event));
    let choose = move |hit: Option<Hit>| {
        if let Some(block) = hit.and_then(|hit| kept.with_value(|laid| laid.block(hit))) {
            asker.select_block(block);
        }
    };
    let keys = move |event: KeyboardEvent| {
        let from = pointed.get_untracked();
        if event.key() == "Enter" {
            return choose(from);
        }
        let next = kept.with_value(|laid| moved(&laid.0.1, from, &event.key()));
        if next.is_some() {
            event.prevent_default();
            event.stop_propagation();
            pointed.set(next);
        }
    };
    view! {
        <svg
            class="map-plot"
            viewBox=format!("0 0 {WIDTH} {height}")
            preserveAspectRatio="none"
            style:height=format!("{}px", height * PIXELS)
            role="application"
            tabindex="0"
            aria-label=[&about, KEYS].concat()
            on:mousemove=move |event| pointed.set(hit(&event))
            on:mouseleave=move |_| pointed.set(None)
            on:click=move |event| choose(hit(&event))
            on:keydown=keys
        >
            {paths}
            {selected}
            {walked}
        </svg>
    }
    .into_any()
}

const POINT: &str = "Point at a block for its address and size; click it for its stack.";

const KEYS: &str = ". Arrow keys walk from block to block, Enter selects.";
