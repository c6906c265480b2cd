//! What a page asks first, so that the browser asks it while the program is still being loaded.

use api::routes;
use api::runs::RunSummary;
use api::view_state::ViewState;
use maud::html;

/// Links for the head of a run's page that shows everything. The page then asks for exactly these
/// addresses ([`timeline::tile_cache::root`]); an answer that it does not ask for is dropped.
pub fn of_run(run: &RunSummary) -> String {
    let device = run.main_device().filter(|device| device.events > 0);
    let pictures = device.into_iter().flat_map(|device| {
        let root = timeline::tile_cache::root(u64::from(device.events));
        let group_by = ViewState::default().group_by;
        [
            routes::series_tile(&run.id, device.device, root),
            routes::mountain_tile(&run.id, device.device, group_by, root),
        ]
    });
    let paths = std::iter::once(routes::run(&run.id)).chain(pictures);
    let links = html! {
        @for path in paths {
            link rel="preload" as="fetch" crossorigin href=(path);
        }
    };
    links.into_string()
}
