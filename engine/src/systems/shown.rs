//! Tests that users see the numbers that are used in the computation. Every system's file, or the
//! file of what it shares with others, says which inputs show which number.

use crate::device::sim::{SimDevice, SimSpec};
use crate::session::Session;

use super::{
    Spec, System, axolotl_bnb, chunk_views, fast_llm, moe_gemma, own_stream, qlora_bnb, qwen,
    reuse, te_attention, text_4096, text_qwen, transposed_views, vl_qwen,
};
use trace::units::Bytes;

/// The check of each system.
const CHECKS: [(&System, fn()); System::ALL.len()] = [
    (System::VL_QWEN, || qwen::check_image_shown(vl_qwen::SPEC)),
    (System::TEXT_QWEN, || {
        qwen::check_text_shown(text_qwen::SPEC)
    }),
    (System::MOE_GEMMA, moe_gemma::check_shown),
    (System::QLORA_BNB, || {
        qwen::check_image_shown(qlora_bnb::SPEC)
    }),
    (System::FAST_LLM, fast_llm::check_shown),
    (System::TE_ATTENTION, te_attention::check_shown),
    (System::REUSE, || reuse::check_shown(reuse::SPEC)),
    (System::CHUNK_VIEWS, chunk_views::check_shown),
    (System::TRANSPOSED_VIEWS, transposed_views::check_shown),
    (System::AXOLOTL_BNB, || {
        qwen::check_image_shown(axolotl_bnb::SPEC)
    }),
    (System::OWN_STREAM, || reuse::check_shown(own_stream::SPEC)),
    (System::TEXT_4096, || {
        qwen::check_text_shown(text_4096::SPEC)
    }),
];

#[test]
fn what_every_system_shows_is_computed_with() {
    assert_eq!(CHECKS.map(|(system, _)| system), System::ALL);
    for (_, check) in CHECKS {
        check();
    }
}

/// Inputs whose numbers are constants of the engine, so a spec cannot change them.
const CONSTANT: [&str; 4] = ["batch", "cuBLAS workspaces", "forward stash", "card"];

/// A change of a spec, and the inputs that change with it.
pub(super) type Case<S> = (&'static [&'static str], fn(&mut S));

/// Each change affects exactly these inputs, and it affects what a step does to the device. If an
/// input shows a number, at least one of the changes affects it.
#[track_caller]
pub(super) fn is_computed_with<S: Spec + Copy>(spec: &S, cases: &[Case<S>]) {
    let before = computed(spec);
    for (names, change) in cases {
        let mut changed = *spec;
        change(&mut changed);
        assert_eq!(&moved(spec, &changed), names);
        assert_ne!(computed(&changed), before, "{names:?} is only shown");
    }
    for input in spec.inputs() {
        let name = input.name.as_str();
        let moves = cases.iter().any(|(names, _)| names.contains(&name));
        let shows_none = !shows_a_number(&input.value);
        assert!(moves || shows_none || CONSTANT.contains(&name), "{name}");
    }
}

/// Names of the inputs that differ.
fn moved(before: &dyn Spec, after: &dyn Spec) -> Vec<String> {
    let after = after.inputs();
    let differs = before.inputs().into_iter().zip(after);
    let differs = differs.filter(|(before, after)| before != after);
    differs.map(|(before, _)| before.name).collect()
}

/// Whether a word of the text begins with a digit, as `32` does and `fp32` does not.
fn shows_a_number(text: &str) -> bool {
    let starts = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    text.split_whitespace().any(starts)
}

/// What building the program and one step do to the device: allocated memory, peak, and time.
fn computed(spec: &dyn Spec) -> (Bytes, Bytes, f64) {
    let mut session = Session::new(Box::new(SimDevice::new(SimSpec::default())));
    let mut program = spec.build(&[], &mut session).unwrap();
    program.step(&mut session).unwrap();
    let mut heap = session.heap().borrow_mut();
    let seconds = heap.device.settle().unwrap();
    let allocated = heap.caching.stats().allocated;
    (allocated, heap.caching.highest_allocated(), seconds)
}
