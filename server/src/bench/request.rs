//! Checks and completes a request: every configuration gets its baseline first.

use super::error::BenchError;
use crate::identity::{bench_id, bench_row_id};
use crate::store::{NewBench, NewBenchRow};
use api::bench::{BenchChoice, BenchDevice, BenchLimits, StartBench};
use engine::bench::RunSpec;
use engine::patches::{Patch, UnknownPatch};
use engine::systems::System;
use timeline::format::plural;

/// The bench that a request means.
///
/// # Errors
/// [`BenchError::Refused`], which says what is wrong with it.
pub fn new_bench(
    request: &StartBench,
    devices: &[BenchDevice],
    limits: &BenchLimits,
    now_ms: i64,
) -> Result<NewBench, BenchError> {
    check_device(request, devices)?;
    check_steps(request, limits)?;
    if let Some(capacity) = request
        .capacity
        .filter(|bytes| !RunSpec::CAPACITY.contains(bytes))
    {
        return refuse(format!(
            "a capacity of {} is outside of 16 MiB to 16 TiB",
            plural(capacity.0, "byte")
        ));
    }
    let choices = choices(&request.rows)?;
    if choices.is_empty() {
        return refuse("choose at least one configuration".to_owned());
    }
    if choices.len() > limits.rows as usize {
        let (asked, most) = (choices.len(), limits.rows);
        return refuse(format!(
            "{asked} rows are more than the {most} of one bench"
        ));
    }
    let row = |(system, patches): (&System, Vec<&Patch>)| NewBenchRow {
        id: bench_row_id(),
        config: system.id.to_owned(),
        patches: patches.iter().map(|patch| patch.id.to_owned()).collect(),
        steps: request.steps.unwrap_or(system.default_steps),
    };
    let recorded = request.recorded_steps.unwrap_or(limits.recorded_steps);
    Ok(NewBench {
        id: bench_id(),
        created_ms: now_ms,
        device: request.device,
        steps: request.steps,
        capacity: request.capacity,
        recorded_steps: recorded,
        rows: choices.into_iter().map(row).collect(),
    })
}

fn check_device(request: &StartBench, devices: &[BenchDevice]) -> Result<(), BenchError> {
    let device = devices.iter().find(|device| device.kind == request.device);
    match device.map(|device| &device.unavailable) {
        Some(None) => Ok(()),
        Some(Some(why)) => refuse(format!("{} cannot be used: {why}", request.device.name())),
        None => refuse(format!("there is no device {}", request.device.name())),
    }
}

fn check_steps(request: &StartBench, limits: &BenchLimits) -> Result<(), BenchError> {
    if request.steps.is_some_and(|n| n == 0 || n > limits.steps) {
        return refuse(format!("a row has 1 to {} steps", limits.steps));
    }
    let most = limits.most_recorded_steps;
    if request.recorded_steps.is_some_and(|n| n == 0 || n > most) {
        return refuse(format!("1 to {most} steps can be recorded event by event"));
    }
    Ok(())
}

/// A set of patches on a system.
type Choice = (&'static System, Vec<&'static Patch>);

/// Removes duplicates, and groups the sets of each system with the baseline first.
fn choices(asked: &[BenchChoice]) -> Result<Vec<Choice>, BenchError> {
    let mut systems: Vec<(&System, Vec<Vec<&Patch>>)> = Vec::new();
    for choice in asked {
        let (system, patches) = one_choice(choice)?;
        let at = match systems.iter().position(|(other, _)| *other == system) {
            Some(at) => at,
            None => {
                systems.push((system, vec![Vec::new()]));
                systems.len() - 1
            }
        };
        if !systems[at].1.contains(&patches) {
            systems[at].1.push(patches);
        }
    }
    let rows = systems.into_iter().flat_map(|(system, sets)| {
        let row = move |patches| (system, patches);
        sets.into_iter().map(row)
    });
    Ok(rows.collect())
}

fn one_choice(choice: &BenchChoice) -> Result<Choice, BenchError> {
    let id = choice.config.as_str();
    let Some(system) = System::from_id(id) else {
        return refuse(format!("there is no configuration `{id}`"));
    };
    let applicable = system.applicable();
    let mut patches = Vec::with_capacity(choice.patches.len());
    for id in &choice.patches {
        match Patch::from_id(id) {
            None => return refuse(UnknownPatch(id.clone()).to_string()),
            Some(patch) if !applicable.contains(&patch) => {
                let system = system.id;
                return refuse(format!("`{id}` changes nothing that `{system}` runs"));
            }
            Some(patch) => match system.base.refuses(patch) {
                Some(why) => return refuse(why),
                None => patches.push(patch),
            },
        }
    }
    Ok((system, Patch::in_order(patches)))
}

fn refuse<T>(why: String) -> Result<T, BenchError> {
    Err(BenchError::Refused(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::DeviceKind;
    use trace::units::Bytes;

    const LIMITS: BenchLimits = BenchLimits {
        rows: 5,
        steps: 100,
        recorded_steps: 12,
        most_recorded_steps: 20,
        seconds: 1,
        memory: Bytes(1),
    };

    fn request(rows: &[(&str, &[&str])]) -> StartBench {
        let choice = |&(config, patches): &(&str, &[&str])| BenchChoice {
            config: config.to_owned(),
            patches: patches.iter().map(|&id| id.to_owned()).collect(),
        };
        StartBench {
            rows: rows.iter().map(choice).collect(),
            device: DeviceKind::Sim,
            steps: None,
            capacity: None,
            recorded_steps: None,
        }
    }

    fn devices() -> Vec<BenchDevice> {
        let device = |kind, unavailable: Option<&str>| BenchDevice {
            kind,
            about: String::new(),
            unavailable: unavailable.map(str::to_owned),
        };
        vec![
            device(DeviceKind::Sim, None),
            device(DeviceKind::Cuda, Some("no driver")),
        ]
    }

    fn refusal(request: &StartBench) -> String {
        let refused = new_bench(request, &devices(), &LIMITS, 0);
        refused.map(drop).unwrap_err().to_string()
    }

    #[test]
    fn the_baseline_comes_first_and_every_set_once() {
        let asked = request(&[
            ("dedupe-reuse", &["release-dedupe-key"]),
            ("vl-qwen3.5-9b", &["enter-reset", "p3"]),
            (
                "vl-qwen3.5-9b",
                &["p3-exit-sync-and-clear", "enter-reset", "p3"],
            ),
            ("dedupe-reuse", &[]),
        ]);
        let bench = new_bench(&asked, &devices(), &LIMITS, 7).unwrap();
        let rows = bench.rows.iter();
        let rows: Vec<String> = rows
            .map(|row| format!("{} {}", row.config, row.patches.join("+")))
            .collect();
        let expected = [
            "dedupe-reuse ",
            "dedupe-reuse release-dedupe-key",
            "vl-qwen3.5-9b ",
            "vl-qwen3.5-9b p3-exit-sync-and-clear+enter-reset",
        ];
        assert_eq!(rows, expected);
        assert_eq!((bench.created_ms, bench.recorded_steps), (7, 12));
        assert_eq!(bench.rows[0].steps, System::REUSE.default_steps);
    }

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let check = |request: &StartBench, expected: &str| {
            let said = refusal(request);
            assert!(said.contains(expected), "{said}");
        };
        check(&request(&[]), "at least one");
        check(&request(&[("x", &[])]), "no configuration `x`");
        check(&request(&[("dedupe-reuse", &["p9"])]), "no patch `p9`");
        check(
            &request(&[("dedupe-reuse", &["p3"])]),
            "`p3` changes nothing",
        );
        let one = request(&[("dedupe-reuse", &[])]);
        let cuda = StartBench {
            device: DeviceKind::Cuda,
            ..one.clone()
        };
        check(&cuda, "no driver");
        let long = StartBench {
            steps: Some(101),
            ..one.clone()
        };
        check(&long, "1 to 100 steps");
        let tiny = StartBench {
            capacity: Some(Bytes(1)),
            ..one
        };
        check(&tiny, "16 MiB");
        let all: Vec<(&str, &[&str])> = System::ALL.iter().map(|c| (c.id, &[][..])).collect();
        check(&request(&all), "more than the 5");
    }
}
