//! The first page of an empty store: drop a file, open a sample, or learn how to record one.

use crate::client::{self, Method};
use crate::components::copy_button::CopyButton;
use crate::components::file_picker::FilePicker;
use crate::components::icon::{Icon, IconView, LogoMark};
use crate::components::permits::may_upload;
use crate::components::problem_note::ProblemNote;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::project;
use api::problem::Problem;
use api::projects::ProjectName;
use api::recipes::{RECORD, curl_line, push_line};
use api::routes;
use api::runs::{Access, FinishedUpload, Sample, ServerInfo};
use leptos::prelude::*;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_location, use_navigate};

/// The project that this page shows, unless it is the first one: whoever sends nothing about it
/// sends to that.
fn other_project() -> Option<String> {
    project::shown().filter(|project| project != ProjectName::MAIN)
}

/// What to do first.
#[component]
pub fn FirstSteps() -> impl IntoView {
    view! {
        <div class="first-steps">
            <section class="drop-zone" aria-labelledby="drop-title">
                <LogoMark/>
                <h1 id="drop-title">"Where did the GPU memory go?"</h1>
                <p class="muted">
                    "Drop PyTorch memory snapshots anywhere on this page: "
                    <code>".pickle"</code> " or " <code>".json"</code>
                    ", plain or gzip or zstd, gigabytes included."
                </p>
                <FilePicker label="Choose files"/>
            </section>
            <Samples/>
            <Recipes/>
        </div>
    }
}

/// The same below a list of runs, folded away.
#[component]
pub fn MoreSteps() -> impl IntoView {
    let opened = RwSignal::new(false);
    let content = move || {
        view! {
            <div class="first-steps">
                <Samples/>
                <Recipes/>
            </div>
        }
    };
    let title = match may_upload() {
        true => "Samples, and how to record a snapshot",
        false => "How to record a snapshot",
    };
    view! {
        <details class="more-steps" on:toggle=move |_| opened.set(true)>
            <summary>{title}</summary>
            <Show when=move || opened.get()>{content}</Show>
        </details>
    }
}

/// The bundled samples, one click away.
#[component]
pub fn Samples() -> impl IntoView {
    let samples = LocalResource::new(|| client::get::<Vec<Sample>>(routes::SAMPLES));
    let cards = move || match samples.get() {
        None => (0..3)
            .map(|_| view! { <li class="sample skeleton-row"></li> })
            .collect_view()
            .into_any(),
        Some(Ok(samples)) => samples
            .into_iter()
            .map(|sample| view! { <SampleCard sample=sample/> })
            .collect_view()
            .into_any(),
        Some(Err(problem)) => view! { <li><ProblemNote problem=problem/></li> }.into_any(),
    };
    view! {
        <section class="samples" aria-labelledby="samples-title">
            <h2 id="samples-title">"Or look at a sample"</h2>
            <ul class="sample-list">{cards}</ul>
        </section>
    }
}

/// One sample; a click makes a run of it and opens that.
#[component]
fn SampleCard(sample: Sample) -> impl IntoView {
    let toasts: Toasts = expect_context();
    let navigate = use_navigate();
    let here = use_location().pathname;
    let opening = RwSignal::new(false);
    let path = routes::sample(&sample.name);
    let open = move |_| {
        if opening.get_untracked() {
            return;
        }
        opening.set(true);
        let (navigate, path) = (navigate.clone(), path.clone());
        let page = here.get_untracked();
        leptos::task::spawn_local(async move {
            let opened: Result<FinishedUpload, Problem> = client::send(Method::Post, &path).await;
            match opened {
                // Whoever reads another page by now goes on reading; the list has the run.
                Ok(opened) if here.get_untracked() == page => {
                    navigate(
                        &routes::run_page(&opened.run.id),
                        NavigateOptions::default(),
                    );
                }
                Ok(_) => {}
                Err(problem) => toasts.fail("The sample did not open", &problem),
            }
            let _ = opening.try_set(false);
        });
    };
    view! {
        <li>
            <button class="sample" aria-busy=move || opening.get().to_string() on:click=open>
                <span class="sample-title">{sample.title} <IconView icon=Icon::Forward/></span>
                <span class="sample-about">{sample.about}</span>
                <span class="sample-size">{sample.bytes.to_string()}</span>
            </button>
        </li>
    }
}

/// How to record a snapshot and send it here.
#[component]
pub fn Recipes() -> impl IntoView {
    let origin = window().location().origin().unwrap_or_default();
    let project = other_project();
    let push = push_line(&origin, project.as_deref());
    let server = LocalResource::new(|| client::get::<ServerInfo>(routes::SERVER));
    let curl = Signal::derive(move || {
        let access = server
            .get()
            .and_then(Result::ok)
            .map(|server| server.access);
        let access = access.unwrap_or(Access::Open);
        curl_line(&origin, access, project.as_deref())
    });
    view! {
        <section class="recipes" aria-labelledby="recipes-title">
            <h2 id="recipes-title">"Record your own"</h2>
            <Recipe title="In the training script" text=RECORD/>
            <Recipe title="Upload from a shell" text=curl/>
            <Recipe title="Upload and get the link" text=push/>
        </section>
    }
}

#[component]
fn Recipe(title: &'static str, #[prop(into)] text: Signal<String>) -> impl IntoView {
    view! {
        <figure class="recipe">
            <figcaption>
                {title}
                <CopyButton text=text what=title/>
            </figcaption>
            <pre tabindex="0"><code>{text}</code></pre>
        </figure>
    }
}
