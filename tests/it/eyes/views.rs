//! Every view of the application that is tested: one table for all tests of this folder.

use std::env;

use tests::Page;

use super::world::World;

/// Opens a part of a page that is closed at first, with the keyboard only.
pub struct Opening {
    /// The element that gets the focus.
    pub focus: &'static str,
    /// The keys pressed there, one after the other.
    pub keys: &'static [&'static str],
    /// The element that appears then.
    pub there: &'static str,
}

/// One view.
pub struct View {
    /// The name of its pictures.
    pub name: &'static str,
    /// Its address.
    pub url: String,
    /// Selectors of parts that are on the page once it is loaded.
    pub there: &'static [&'static str],
    /// The parts to open on it.
    pub openings: &'static [Opening],
    /// Whether requests of this page are answered with errors, which browsers write to the console.
    pub is_error: bool,
}

/// True when nothing is loading: no part of the page is busy, and all fonts are there.
const SETTLED: &str = "return document.fonts.status === 'loaded' && \
    !document.querySelector('[aria-busy=true], .skeleton, .shown[class*=skeleton]');";

const DRAWN: &str = ".timeline[aria-busy=false]";
/// How often an opening may fail because the page draws the part again at that moment.
const OPENING_TRIES: usize = 5;

const DIALOG: &str = "dialog[open] h2";

impl View {
    fn at(name: &'static str, url: String, there: &'static [&'static str]) -> Self {
        Self {
            name,
            url,
            there,
            openings: &[],
            is_error: false,
        }
    }

    fn opened(mut self, openings: &'static [Opening]) -> Self {
        self.openings = openings;
        self
    }

    fn failing(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Opens the view and waits until everything is loaded and at rest.
    pub async fn visit(&self, page: &impl Page) {
        page.goto(&self.url).await;
        self.settle(page).await;
        for opening in self.openings {
            self.open(page, opening).await;
        }
        self.settle(page).await;
    }

    /// Opens a part with the keyboard. Tries again if the page drew the part again meanwhile,
    /// because then the part has lost the focus.
    async fn open(&self, page: &impl Page, opening: &Opening) {
        let focus = format!(
            "const it = document.querySelector('{}');
             if (document.activeElement !== it) it.focus();
             return document.activeElement === it;",
            opening.focus
        );
        let there = there(opening.there);
        for _ in 0..OPENING_TRIES {
            page.wait_for(self.name, &focus).await;
            for key in opening.keys {
                page.press(key).await;
            }
            if page.is_soon(&there).await {
                return;
            }
        }
        panic!(
            "{}: the keyboard does not open {}",
            self.name, opening.focus
        );
    }

    /// Waits until everything is loaded and at rest.
    pub async fn settle(&self, page: &impl Page) {
        page.hold_still().await;
        for selector in self.there {
            page.wait_for(self.name, &there(selector)).await;
        }
        page.wait_for(self.name, SETTLED).await;
    }
}

fn there(selector: &str) -> String {
    format!("return !!document.querySelector('{selector}');")
}

/// All views, or only those that `VIEWS` names: `VIEWS=run,compare`.
pub fn views(world: &World) -> Vec<View> {
    let mut views = pages(world);
    views.extend(runs(world));
    views.extend(links(world));
    if let Ok(names) = env::var("VIEWS") {
        views.retain(|view| names.split(',').any(|name| name == view.name));
    }
    views
}

/// The lists, the comparison and the bench, each empty and with contents.
fn pages(world: &World) -> Vec<View> {
    let runs = ["off_v1_moe", "off_v3_moe"].map(|name| world.run(name));
    let compare = world
        .few
        .url(&format!("/compare?v=1&runs={}", runs.join(",")));
    vec![
        View::at("runs-empty", world.empty.url("/"), &["button.sample"]),
        View::at("runs-few", world.few.url("/"), &["tr.run"]).opened(&[Opening {
            focus: "tr:nth-child(2) .run-pick",
            keys: &[" "],
            there: ".picked-bar",
        }]),
        View::at("runs-many", world.many.url("/"), &["tr.run:nth-child(26)"]),
        View::at("compare-pick", world.few.url("/compare"), &[".pick-row"]),
        View::at(
            "compare",
            compare,
            &[".overlay-stage[aria-busy=false]", ".site-head"],
        )
        .opened(&[Opening {
            focus: ".site-head",
            keys: &["Enter"],
            there: ".site-detail .site-side",
        }]),
        View::at(
            "job",
            world.ranks.url(&world.jobs[0]),
            &[".job-verdict", ".multiple canvas", ".table-frame tbody tr"],
        ),
        View::at(
            "job-many",
            world.ranks.url(&world.jobs[1]),
            &[".rank-cell.odd", ".job-band canvas", ".job-chosen"],
        ),
        View::at(
            "bench-empty",
            world.empty.url("/bench"),
            &[".bench-empty .button", ".offloaders-cell", ".frontier-dot"],
        ),
        View::at(
            "bench",
            world.bench.url("/bench"),
            &[
                ".bench-row",
                ".spark polyline",
                ".offloaders-cell",
                ".frontier-dot",
            ],
        )
        .opened(&[
            Opening {
                focus: ".evidence > summary",
                keys: &["Enter"],
                there: ".evidence[open] .evidence-card",
            },
            Opening {
                focus: ".offloaders-cell",
                keys: &["Enter"],
                there: ".offloaders-chosen",
            },
        ]),
        View::at("help", world.empty.url("/"), &["button.sample"]).opened(&[Opening {
            focus: ".app-header-tools button:last-child",
            keys: &["Enter"],
            there: DIALOG,
        }]),
        View::at("not-found", world.empty.url("/nowhere"), &[".blank-page"]),
    ]
}

/// The page of a run, with each of its answers.
fn runs(world: &World) -> Vec<View> {
    let run = |name: &str, query: &str| {
        world
            .few
            .url(&format!("/runs/{}?v=5{query}", world.run(name)))
    };
    let long = world.bench.url(&format!("/runs/{}", world.long_run));
    vec![
        View::at("run", run("plain_lm", ""), &[DRAWN]).opened(&[Opening {
            focus: ".export-menu summary",
            keys: &["Enter"],
            there: ".export-menu[open] a",
        }]),
        View::at("run-long", long, &[DRAWN]),
        View::at(
            "run-selected",
            run("streams", "&sel=b100"),
            &[".panel .stack", DRAWN],
        ),
        View::at("run-oom", run("oom", ""), &[DRAWN, ".failure"]),
        View::at(
            "run-pass",
            run("plain/single_forward", ""),
            &[DRAWN, ".recording-what"],
        ),
        View::at(
            "leaks",
            run("off_v1_moe", "&tab=leaks"),
            &[".verdict", DRAWN],
        ),
        View::at(
            "leaks-none",
            run("plain_lm", "&tab=leaks"),
            &[".verdict", DRAWN],
        ),
        View::at(
            "alive",
            run("leak_hook_cache", "&tab=alive"),
            &[".table-frame tr", DRAWN],
        ),
        View::at(
            "allocations",
            run("plain_lm", "&tab=allocations"),
            &["tr.block", DRAWN],
        ),
        View::at(
            "map",
            run("streams", "&tab=map&at=3000"),
            &[".map-used", DRAWN],
        ),
        View::at(
            "what-if",
            run("oom", "&tab=what-if&alloc_conf=expandable_segments%3ATrue"),
            &[".level.what-if", ".advice", DRAWN],
        ),
        View::at("share", run("plain_lm", ""), &[DRAWN]).opened(&[Opening {
            focus: ".view-actions > button:last-of-type",
            keys: &["Enter"],
            there: DIALOG,
        }]),
        View::at("copy-for-pr", run("plain_lm", ""), &[DRAWN]).opened(&[Opening {
            focus: ".view-actions > button:nth-of-type(2)",
            keys: &["Enter"],
            there: "dialog[open] textarea",
        }]),
    ]
}

/// The pages for visitors who open a link, or who have not signed in.
fn links(world: &World) -> Vec<View> {
    let nothing = world.few.url("/runs/run_0000000000000000");
    vec![
        View::at(
            "shared",
            world.open_link.clone(),
            &[".link-banner", ".verdict", DRAWN],
        ),
        View::at(
            "shared-redacted",
            world.redacted_link.clone(),
            &[".link-banner", ".verdict"],
        ),
        View::at("shared-ended", world.ended_link.clone(), &[".link-refused"]).failing(),
        View::at("run-missing", nothing, &[".run-nothing"]).failing(),
        View::at("login", world.closed.url("/"), &["dialog[open] #token"]).failing(),
    ]
}
