//! The tools: what each of them is for, what it takes, and what answers it.

use super::answer::Page;
use super::arguments::{OfConditions, OfLimited, OfMoment, OfRecording, OfRuns, OfTwo, read};
use super::asker::{Asker, Refusal};
use super::library::Library;
use super::{of_many, of_one};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use trace::watch::{Stopped, Watch};

/// A tool: its name, what it is for, its arguments, and its answer.
struct Spec {
    name: &'static str,
    about: &'static str,
    takes: fn(Tool) -> Tool,
    answer: fn(Asker<'_>, Value) -> Result<Page, Refusal>,
}

const TOOLS: [Spec; 7] = [
    Spec {
        name: "explain",
        about: "One page about a recording: what it is, what held the memory at its peak, what \
                leaks and where, fragmentation, and, if it ran out of memory, why and which single \
                changes would have helped, ranked. Begin here.",
        takes: Tool::with_input_schema::<OfLimited>,
        answer: |asker, arguments| of_one::explain(asker, read(arguments)?),
    },
    Spec {
        name: "inspect",
        about: "The facts of a recording: the four series (requested, allocated, active, reserved) \
                with start, peak and end of each device, what was held by category, failed \
                allocations, and every step with its levels.",
        takes: Tool::with_input_schema::<OfLimited>,
        answer: |asker, arguments| of_one::inspect(asker, read(arguments)?),
    },
    Spec {
        name: "leaks",
        about: "Whether memory leaks from step to step (leak, clean, or cannot tell with the \
                reason), how fast, and the places in the code that account for it, with their \
                stacks.",
        takes: Tool::with_input_schema::<OfRecording>,
        answer: |asker, arguments| of_one::leaks(asker, read(arguments)?),
    },
    Spec {
        name: "alive",
        about: "What is allocated at a moment, grouped by place in the code, category, stream or \
                pool, most bytes first.",
        takes: Tool::with_input_schema::<OfMoment>,
        answer: |asker, arguments| of_one::alive(asker, read(arguments)?),
    },
    Spec {
        name: "compare",
        about: "What changed between two recordings of a program: better or worse, peaks, growth \
                a step, leaks fixed or new, and the places in the code that differ.",
        takes: Tool::with_input_schema::<OfTwo>,
        answer: |asker, arguments| of_many::compare(asker, read(arguments)?),
    },
    Spec {
        name: "what_if",
        about: "The same requests replayed under other allocator settings, another limit, or \
                without what leaks: would it have fitted, peak reserved, retries, and how far \
                the answer can be trusted.",
        takes: Tool::with_input_schema::<OfConditions>,
        answer: |asker, arguments| of_one::what_if(asker, read(arguments)?),
    },
    Spec {
        name: RUNS,
        about: "The runs of a dashboard, newest first: id, name, peak, steps, whether it leaks. \
                Their ids are what the other tools take as `recording`.",
        takes: Tool::with_input_schema::<OfRuns>,
        answer: |asker, arguments| of_many::runs(asker, read(arguments)?),
    },
];

/// The tool that needs no recording.
pub const RUNS: &str = "runs";

/// All tools, as a client lists them.
pub fn all() -> Vec<Tool> {
    let tool = |spec: &Spec| {
        let tool = Tool::new(spec.name, spec.about, JsonObject::new());
        // All tools only read.
        (spec.takes)(tool).with_annotations(ToolAnnotations::new().read_only(true))
    };
    TOOLS.iter().map(tool).collect()
}

/// Calls a tool. Must be called on a thread that may block.
///
/// The inner result says why there is no answer, and what to do.
///
/// # Errors
/// [`Stopped`] by the watch.
pub fn call(
    recordings: &dyn Library,
    watch: Watch<'_>,
    name: &str,
    arguments: JsonObject,
) -> Result<Result<Page, String>, Stopped> {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        let names = names.join(", ");
        return Ok(Err(format!("There is no tool {name}: use {names}.")));
    };
    match (tool.answer)(Asker { recordings, watch }, Value::Object(arguments)) {
        Ok(page) => Ok(Ok(page)),
        Err(Refusal::Told(why)) => Ok(Err(why)),
        Err(Refusal::Stopped) => Err(Stopped),
    }
}
