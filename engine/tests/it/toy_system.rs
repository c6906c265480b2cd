//! The system of `docs/add-a-system.md`: it has the code of `toy.rs`, is short, and runs.

use engine::bench::{RunSpec, run, run_all};

use crate::toy::TOY;

const CODE: &str = include_str!("toy.rs");
const DOCUMENT: &str = include_str!("../../../docs/add-a-system.md");

#[test]
fn the_document_shows_the_code_that_runs() {
    let block = format!("```rust\n{CODE}```\n");
    assert!(DOCUMENT.contains(&block));
    assert!(CODE.lines().count() < 60, "{}", CODE.lines().count());
}

#[test]
fn the_toy_leaks_what_it_keeps() {
    let spec = RunSpec::new(TOY, &[]);
    let outcome = run(&spec, &mut |_| true);
    assert_eq!(outcome.steps_run, TOY.default_steps);
    // 1024 tokens with a width of 1024 in bf16.
    assert_eq!(outcome.growth_per_step, f64::from(2 * 1024 * 1024));
    let rows = run_all(&[spec]);
    assert_eq!(rows[0].config, "toy");
}
