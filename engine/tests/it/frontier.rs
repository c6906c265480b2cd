//! Compares the stored frontier with the simulation of today, and with measurements.

use api::bench::{DeviceKind, Frontier, FrontierKind, FrontierPoint};
use engine::bench::{FrontierSpec, FrontierTable, frontier, run_frontier};
use engine::device::Ordinal;

fn kept() -> &'static Frontier {
    let kept = frontier();
    assert!(!kept.points.is_empty(), "the file can be read");
    kept
}

fn point(label: &str) -> &'static FrontierPoint {
    let found = kept().points.iter().find(|point| point.label == label);
    found.expect("the offloader is there")
}

fn today() -> FrontierTable {
    let spec = FrontierSpec {
        device: DeviceKind::Sim,
        steps: 8,
        ordinal: Ordinal::default(),
    };
    let now = run_frontier(&spec).unwrap();
    // Written and read like the stored one, because reading a float can change its last bit.
    serde_json::from_str(&serde_json::to_string(&now).unwrap()).unwrap()
}

#[test]
fn the_kept_points_are_computed_again() {
    let now = today();
    let kept = kept();
    assert_eq!(kept.limits, now.limits);
    assert_eq!(kept.points, now.points);
    assert_eq!(kept.workload, now.workload);
    assert_eq!(kept.command, "tidemark bench --frontier --json");
}

/// Where PyTorch and the real offloader were measured, step and peak differ by less than a tenth.
#[test]
fn the_points_agree_with_what_was_measured() {
    let measured = kept().points.iter().filter_map(|point| {
        let measured = point.measured?;
        let step = point.step_seconds / measured.step_seconds;
        let peak = point.peak_allocated.0 as f64 / measured.peak_allocated.0 as f64;
        Some((&point.label, step, peak))
    });
    let measured: Vec<_> = measured.collect();
    assert!(measured.len() >= 4, "{measured:?}");
    for (label, step, peak) in measured {
        assert!((0.9..1.1).contains(&step), "{label}: step {step}");
        assert!((0.9..1.1).contains(&peak), "{label}: peak {peak}");
    }
}

/// A card ran the same points, and the file says where and how. Memory equals that of the
/// simulation. Time does too, if copies limit the step; where the host waits for each copy it is
/// 2 % more, and with copies both ways at once up to 7 %. If products limit it, cuBLASLt is faster
/// than the rate that was calibrated with PyTorch's step. What the card copied is compared beside
/// `engine::bench::frontier`.
#[test]
fn every_point_on_the_card_is_a_computed_one() {
    let kept = kept();
    let card = &kept.card;
    assert!(card.points.len() >= 20, "{}", card.points.len());
    for on_card in &card.points {
        let computed = point(&on_card.label);
        assert_eq!(on_card.failure, None, "{}", on_card.label);
        assert_eq!(on_card.peak_allocated, computed.peak_allocated);
        assert_eq!(kept.on_card(&computed.label), Some(on_card));
        let longer = on_card.step_seconds / computed.step_seconds;
        let most = match on_card.label.as_str() {
            "save_on_cpu" => 1.03,
            "duplex" => 1.09,
            _ => 1.01,
        };
        assert!(
            (0.88..most).contains(&longer),
            "{}: {longer}",
            on_card.label
        );
    }
    assert_eq!(card.compute, "cublasLt 13.1.0 bf16");
    assert_eq!(card.machine, "NVIDIA H200, 143771 MiB, driver 580.159.04");
    assert_eq!(
        card.command,
        "tidemark bench --frontier --device cuda --json"
    );
    assert_eq!(card.file, "engine/results/frontier-h200.json");
    assert_eq!(card.date, "2026-11-28");
}

/// No point is faster than its products. If a point moves or keeps activations, it is not faster
/// than copying them out and back one after the other. This does not hold for points that compute
/// activations again. Points that copy in both directions at once may take half of that time.
#[test]
fn no_point_is_beyond_the_limits() {
    let kept = kept();
    for point in &kept.points {
        assert_eq!(point.failure, None, "{}", point.label);
        let slack = 0.999;
        let floor = kept.limits.compute_seconds * slack;
        assert!(point.step_seconds >= floor, "{}", point.label);
        if point.kind != FrontierKind::Recompute {
            let both = kept.limits.copy_seconds(point.peak_allocated);
            let copies = match point.label.as_str() {
                "duplex" => both / 2.0,
                _ => both,
            };
            assert!(point.step_seconds >= copies * slack, "{}", point.label);
        }
        assert!(point.peak_active >= point.peak_allocated);
        assert!(point.peak_reserved >= point.peak_active, "{}", point.label);
    }
}

/// If more modules move, memory falls, and time rises once copies limit the step.
#[test]
fn a_larger_fraction_lies_lower_and_further_to_the_right() {
    let shares = [0, 25, 50, 75, 100].map(|percent| point(&format!("megatron-lm {percent} %")));
    for pair in shares.windows(2) {
        assert!(pair[0].peak_allocated > pair[1].peak_allocated);
        assert!(pair[0].step_seconds <= pair[1].step_seconds);
    }
    // With a share of 0 the offloader still makes its streams wait for each other.
    let over_none = shares[0].step_seconds / point("none").step_seconds;
    assert!((1.0..1.001).contains(&over_none), "{over_none}");
}
