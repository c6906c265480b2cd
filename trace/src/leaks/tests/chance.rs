//! Memory that is kept, or seems to be kept, at random moments.

use super::innocent::any;
use super::*;
use std::collections::HashSet;

#[test]
fn growth_at_uneven_distances_is_clean_only_if_luck_is_ruled_out() {
    let check = |n: u32, kept: &[u32], expected| {
        Program::run(n, |p, step| {
            if kept.contains(&step) {
                p.alloc(&KEEP, 1 << 20);
            }
        })
        .is(expected)
    };
    // By luck, most of it is early, or the end is quiet.
    check(20, &[0, 3, 4, 5, 7, 8, 9, 15, 17], Verdict::CannotTell);
    check(
        30,
        &[0, 3, 4, 5, 6, 7, 9, 11, 14, 16, 18, 20, 22],
        Verdict::CannotTell,
    );
    // Caches that fill.
    check(40, &[0, 1, 2, 3, 5, 16], Verdict::Clean);
    check(20, &[0, 2, 4, 5, 6, 8, 12, 13], Verdict::CannotTell);
    // Bursts, and a leak at chance.
    check(20, &[0, 1, 2, 10, 11, 12], Verdict::Leak);
    check(40, &[0, 3, 14, 20, 22, 26, 27, 28, 29, 32], Verdict::Leak);
}

/// One object that is kept in each of three steps, on average; and a cache of a few keys, which is
/// read at random.
#[test]
fn a_leak_at_chance_is_hardly_ever_clean_and_a_cache_that_fills_hardly_ever_a_leak() {
    let (mut leaks, mut clean, mut filled) = (0, 0, 0);
    for mut seed in 1..100_u64 {
        let n = 20 + any(&mut seed, 40) as u32;
        let leak = Program::run(n, |p, _| {
            if any(&mut seed, 3) == 0 {
                p.alloc(&KEEP, 1 << 20);
            }
        });
        let keys = 5 + any(&mut seed, u64::from(n) / 3);
        let mut cache = HashSet::new();
        let cache = Program::run(n, |p, _| {
            if cache.insert(any(&mut seed, keys)) {
                p.alloc(&HOLD, 1 << 20);
            }
        });
        let found = leak.report().0.verdict;
        leaks += u32::from(found == Verdict::Leak);
        clean += u32::from(found == Verdict::Clean);
        filled += u32::from(cache.report().0.verdict == Verdict::Leak);
    }
    assert!(
        leaks >= 75 && clean <= 2 && filled <= 5,
        "{leaks} {clean} {filled}"
    );
}

/// What is kept is one MiB, once in three steps on average.
#[test]
fn a_rate_that_chance_decides_has_an_error() {
    let (mut told, mut right) = (0, 0);
    for mut seed in 1..60_u64 {
        let program = Program::run(60, |p, _| {
            if any(&mut seed, 3) == 0 {
                p.alloc(&KEEP, 1 << 20);
            }
        });
        let report = program.report().0;
        if let [group] = report.groups.as_slice() {
            let expected = f64::from(1 << 20) / 3.0;
            told += 1;
            right += u32::from((group.bytes_per_step - expected).abs() <= group.slope_error);
            assert!(report.reason.contains("on average"), "{}", report.reason);
        }
    }
    assert!(right * 10 >= told * 9, "{right} of {told}");
    let reason = Program::run(40, |p, step| {
        if [0, 3, 14, 20, 22, 26, 27, 28, 29, 32].contains(&step) {
            p.alloc(&KEEP, 1 << 20);
        }
    })
    .is(Verdict::Leak);
    let rate = "(once in 4 steps on average, at uneven distances: ± 163 KiB)";
    assert!(reason.contains(rate), "{reason}");
}
