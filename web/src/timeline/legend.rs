//! The legend: the four series with their value at the pointer, or their peak.

use super::Handle;
use ::timeline::readout::extent_text;
use api::quality::peak_in_short;
use api::runs::DeviceSummary;
use leptos::prelude::*;
use trace::trace::Series;

const PINNED: &str = "Pinned memory of the host in use, from PyTorch's allocator of pinned memory";

/// The legend.
#[component]
pub fn Legend(
    handle: Handle,
    device: DeviceSummary,
    /// What is found about the data of the device.
    codes: Vec<String>,
) -> impl IntoView {
    let at_pointer = move || handle.outputs.extents.with(Option::is_some);
    let items = Series::ALL.map(|series| {
        let peak = peak_in_short(device.series[series as usize].peak, &codes);
        let value = move || match handle.outputs.extents.get() {
            Some(extents) => extent_text(extents[series as usize]),
            None => peak.clone(),
        };
        view! {
            <li class=format!("legend-item {}", series.name())>
                <span class="legend-line" aria-hidden="true"></span>
                <span class="legend-name">{series.name()}</span>
                <span class="legend-value">{value}</span>
            </li>
        }
    });
    let pinned = handle.pinned.map(|peak| {
        let readout = handle.outputs.readout;
        let value = move || {
            let here = readout.with(|readout| readout.as_ref().and_then(|r| r.pinned));
            here.map_or_else(|| peak.to_string(), extent_text)
        };
        view! {
            <li class="legend-item pinned" title=PINNED>
                <span class="legend-line" aria-hidden="true"></span>
                <span class="legend-name">"pinned (host)"</span>
                <span class="legend-value">{value}</span>
            </li>
        }
    });
    view! {
        <div class="legend">
            <p class="muted">{move || if at_pointer() { "At the pointer" } else { "Peaks" }}</p>
            <ul>
                {items}
                {pinned}
                <li>
                    <details class="note">
                        <summary class="badge" aria-label="What the lines are">"?"</summary>
                        <dl>
                            <dt>"requested"</dt>
                            <dd>"What the program asked for, of blocks in use."</dd>
                            <dt>"allocated"</dt>
                            <dd>
                                "Blocks from their allocation to their free: "
                                "torch.cuda.memory_allocated()."
                            </dd>
                            <dt>"active"</dt>
                            <dd>
                                "Allocated, plus blocks freed while another stream still uses them."
                            </dd>
                            <dt>"reserved"</dt>
                            <dd>"Segments got from the driver: torch.cuda.memory_reserved()."</dd>
                        </dl>
                    </details>
                </li>
            </ul>
        </div>
    }
}
