//! What a comparison shows: renamed sites, conditions, sums.

use super::*;

#[test]
fn a_program_moved_edited_and_rerun_is_no_change() {
    let base = Program::default();
    for new in [
        base.clone(),
        Program {
            shift: 7,
            ..base.clone()
        },
        Program {
            root: "/home/me/venv/lib/python3.12/",
            ..base.clone()
        },
        Program {
            dust: 40,
            ..base.clone()
        },
    ] {
        let difference = difference(&base, &new);
        assert_eq!(difference.change, Change::None, "{}", difference.headline);
        assert!(difference.alike && difference.sites.is_empty());
        assert_eq!(gated(&base, &new).outcome, Outcome::Pass);
    }
}

/// `tidemark push` has a comparison only as the JSON of a server, and shows the same numbers.
#[test]
fn a_comparison_in_json_tells_over_which_steps_the_peaks_are_compared() {
    let base = Program::default();
    let longer = Program {
        steps: base.steps + 6,
        leak: 8 * MIB,
        ..base.clone()
    };
    let told = difference(&base, &longer);
    let json = serde_json::to_string(&told).unwrap();
    let read: Difference = serde_json::from_str(&json).unwrap();
    let (over, peaks) = words::common_peaks(&read).unwrap();
    assert_eq!(over, " over the 12 steps of both");
    assert_eq!(Some((over, peaks)), words::common_peaks(&told));
}

#[test]
fn renamed_functions_and_files_are_inferred() {
    let base = Program {
        leak: 8 * MIB,
        ..Program::default()
    };
    for new in [
        Program {
            leaker: ("retain", "cache.py"),
            ..base.clone()
        },
        Program {
            leaker: ("keep", "storage.py"),
            ..base.clone()
        },
        // In every stack.
        Program {
            trainer: ("fit", "loop.py"),
            ..base.clone()
        },
    ] {
        let difference = difference(&base, &new);
        assert_eq!(difference.change, Change::None, "{:?}", difference.sites);
        let place = &difference.new.leaks.places[0];
        assert!(place.in_both && place.known);
        assert_eq!(gated(&base, &new).outcome, Outcome::Pass);
    }
}

#[test]
fn another_batch_size_is_said_first() {
    let base = Program::default();
    let new = Program {
        lengths: vec![32 * MIB],
        ..base.clone()
    };
    let difference = difference(&base, &new);
    let work = &difference.conditions[0];
    assert_eq!(work.kind, conditions::ConditionKind::Work);
    assert!(
        work.meaning
            .contains("most tensors are 2.00 times as large"),
        "{}",
        work.meaning
    );
    assert_eq!(gated(&base, &new).outcome, Outcome::Regression);
}

#[test]
fn settings_that_differ_are_told_once() {
    fn check(base: &[(&str, &str)], new: &[(&str, &str)], expected: &[&str]) {
        let of = |settings: &[(&str, &str)]| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            Profile {
                torch: None,
                settings: settings.iter().map(own).collect(),
                devices: Vec::new(),
                pinned: None,
            }
        };
        let found = conditions::of_runs(&of(base), &of(new));
        let told: Vec<String> = found
            .iter()
            .map(|c| format!("{}: {} → {}", c.name, c.base, c.new))
            .collect();
        assert_eq!(told, expected);
    }
    const RAW: &str = "PYTORCH_CUDA_ALLOC_CONF";
    const SMALL: &str = "roundup_power2_divisions.1";
    const LARGE: &str = "roundup_power2_divisions.2";
    check(
        &[(RAW, "a")],
        &[(RAW, "b")],
        &["PYTORCH_CUDA_ALLOC_CONF: a → b"],
    );
    check(
        &[(RAW, ""), (SMALL, "0"), (LARGE, "0"), ("x", "1")],
        &[(RAW, "r:8"), (SMALL, "8"), (LARGE, "8"), ("x", "1")],
        &["roundup_power2_divisions: 0 → 8"],
    );
    check(
        &[(RAW, ""), (SMALL, "0"), (LARGE, "0")],
        &[(RAW, "r:8"), (SMALL, "8"), (LARGE, "4")],
        &[
            "roundup_power2_divisions.1: 0 → 8",
            "roundup_power2_divisions.2: 0 → 4",
        ],
    );
    check(&[(RAW, "a")], &[], &[]);
    check(
        &[("x", "1")],
        &[("y", "1")],
        &["x: 1 → not set", "y: not set → 1"],
    );
    // One version of PyTorch does not know what the other one leaves off.
    check(
        &[("x", "1"), ("graph_capture_record_stream_reuse", "false")],
        &[("x", "1"), ("pinned_max_round_threshold_mb", "-1")],
        &[],
    );
}

#[test]
fn sequences_of_varying_length_may_come_in_any_order() {
    let base = Program {
        lengths: vec![8 * MIB, 40 * MIB, 24 * MIB],
        ..Program::default()
    };
    let longer = Program {
        lengths: vec![8 * MIB, 48 * MIB, 24 * MIB],
        ..base.clone()
    };
    for new in [
        Program {
            lengths: vec![24 * MIB, 8 * MIB, 8 * MIB],
            ..base.clone()
        },
        longer.clone(),
    ] {
        let verdicts = gated(&base, &new);
        assert_eq!(verdicts.outcome, Outcome::Pass, "{}", verdicts.reason);
    }
    // With equal lengths, more weights are not a matter of luck.
    let heavier = Program {
        weights: 260 * MIB,
        ..longer
    };
    assert_eq!(gated(&base, &heavier).outcome, Outcome::Regression);
}

/// Rows are made of what the reader sees.
#[test]
fn a_site_of_one_run_alone_differs_and_so_do_parts_of_the_peaks() {
    let base = Program::default().profile();
    let mut new = base.clone();
    let sites = &mut new.devices[0].sites;
    // One that is used now and then, as in a run whose steps differ.
    sites.push(profile::SiteProfile {
        key: SiteKey::Shape(7),
        functions: Vec::new(),
        wobble: Bytes::mib(500),
        ..sites[0].clone()
    });
    let rows = compare(&base, &new).remove(0).sites;
    assert_eq!((rows.len(), rows[0].change), (1, SiteChange::New));
    // Without a stack it may be another length.
    let added = new.devices[0].sites.last_mut().unwrap();
    added.key = SiteKey::Size(added.sizes[0].0);
    assert!(compare(&base, &new).remove(0).sites.is_empty());
    // Each site holds as much as before, but no longer at the same time.
    let mut new = base.clone();
    let device = &mut new.devices[0];
    let by = Bytes::mib(60);
    device.sites[1].at_peak = device.sites[1].at_peak.saturating_sub(by);
    let moved = base.devices[0].sites[1].at_peak.0 - device.sites[1].at_peak.0;
    device.sites[1].requested.at_peak = device.sites[1].at_peak;
    assert!(moved > 0);
    let peak = &mut device.summary[Series::Allocated as usize].peak;
    *peak = peak.saturating_sub(Bytes(moved));
    let difference = compare(&base, &new).remove(0);
    let rows = &difference.sites;
    assert_eq!((rows.len(), rows[0].change), (1, SiteChange::Shifted));
    assert_eq!(
        (rows[0].at_peak, rows[0].by()),
        (-(moved as i64), -(moved as i64))
    );
    // Where the peaks are the same, it does not matter when they are.
    new.devices[0].summary = base.devices[0].summary;
    assert!(compare(&base, &new).remove(0).sites.is_empty());
}

/// Whichever of two runs is the baseline, the same sites differ, by as much the other way.
#[test]
fn a_comparison_the_other_way_is_its_mirror_image() {
    let grows = |slope: u64, steps: u32| {
        let program = Program {
            steps,
            leak: slope,
            ..Program::default()
        };
        program.profile()
    };
    let mut flat = grows(4 * MIB, 6);
    flat.devices[0]
        .sites
        .iter_mut()
        .for_each(|site| site.growth = 0.0);
    let (steady, short) = (grows(4 * MIB, 12), grows(4 * MIB, 6));
    let fast = grows(8 * MIB, 8);
    for [base, new] in [
        [&steady, &short],
        [&steady, &flat],
        [&fast, &short],
        [&fast, &steady],
    ] {
        let rows = |base, new, sign: i64| -> Vec<[i64; 3]> {
            let rows = compare(base, new).remove(0).sites.into_iter();
            rows.map(|row| [row.peak, row.at_peak, row.at_end].map(|by| by * sign))
                .collect()
        };
        assert_eq!(rows(base, new, 1), rows(new, base, -1));
    }
}

#[test]
fn what_differs_adds_up() {
    let base = Program {
        leak: 8 * MIB,
        ..Program::default()
    };
    let new = Program {
        leak: 24 * MIB,
        weights: 190 * MIB,
        ..Program::default()
    };
    let difference = difference(&base, &new);
    let allocated = difference.series(Series::Allocated);
    let sum = |of: fn(&SiteDelta) -> i64| difference.sites.iter().map(of).sum::<i64>();
    assert_eq!(sum(|row| row.at_peak), allocated.peak);
    assert_eq!(sum(|row| row.at_end), allocated.end);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any trace compared with itself shows no change, and passes.
    #[test]
    fn a_trace_against_itself_is_no_change(trace in crate::testing::arbitrary::traces(400)) {
        let profile = Profile::of(&trace);
        let differences = compare(&profile, &profile);
        for difference in &differences {
            prop_assert_eq!(difference.change, Change::None);
            prop_assert!(difference.alike);
            prop_assert!(difference.conditions.is_empty());
        }
        let outcome = gate::gate(&differences, &Limits::default()).outcome;
        prop_assert_eq!(outcome, Outcome::Pass);
    }

    /// The sum over all sites at the peak and at the end equals the series.
    #[test]
    fn sites_add_up_to_the_series(trace in crate::testing::arbitrary::traces(400)) {
        for device in Profile::of(&trace).devices {
            let allocated = device.summary[Series::Allocated as usize];
            let sum = |of: fn(&profile::SiteProfile) -> Bytes| device.sites.iter().map(of).sum();
            prop_assert_eq!(allocated.peak, sum(|site| site.at_peak));
            prop_assert_eq!(allocated.end, sum(|site| site.at_end));
        }
    }
}

#[test]
fn what_either_peak_holds_has_a_change() {
    let profile = |shares: &[(Named, u64)]| Profile {
        devices: vec![profile::DeviceProfile {
            at_peak: shares.iter().map(|&(c, bytes)| (c, Bytes(bytes))).collect(),
            ..profile::DeviceProfile::default()
        }],
        ..Profile::default()
    };
    let base = profile(&[
        (Named::Ours(Category::Activation), 700),
        (Named::Ours(Category::Parameter), 100),
    ]);
    let new = profile(&[
        (Named::Ours(Category::Parameter), 100),
        (Named::Ours(Category::Input), 5),
    ]);
    assert_eq!(
        compare(&base, &new)[0].category_changes(),
        [
            (Named::Ours(Category::Activation), -700),
            (Named::Ours(Category::Input), 5),
            (Named::Ours(Category::Parameter), 0),
        ]
    );
}

/// The engine writes the newest layout, but no torch ran.
#[test]
fn the_engine_is_no_torch() {
    let mut torch = Program::default().profile();
    torch.torch = Some("2.14 or later".to_owned());
    let mut engine = torch.clone();
    let own = (crate::trace::ENGINE_SETTING.to_owned(), "x".to_owned());
    engine.settings.push(own);
    let found = conditions::of_runs(&engine, &torch);
    let about = found
        .iter()
        .find(|c| c.kind == conditions::ConditionKind::Torch);
    let told = about.map(|c| [c.base.as_str(), c.new.as_str()]);
    assert_eq!(told, Some(["engine recording", "2.14 or later"]));
}

#[test]
fn rows_of_a_bench_differ_in_what_the_bench_compares() {
    let row = |patches: &str| {
        let mut row = Program::default().profile();
        let own = [
            (crate::trace::ENGINE_SETTING, "dense"),
            ("tidemark.patches", patches),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        row.settings.extend(own);
        row
    };
    let found = conditions::of_runs(&row(""), &row("p3 enter-reset"));
    let told: Vec<[&str; 4]> = found
        .iter()
        .map(|c| [c.name.as_str(), &c.base, &c.new, &c.meaning])
        .collect();
    let meaning = "what the bench compares: the same program with other patches";
    assert_eq!(told, [["patches", "none", "p3 enter-reset", meaning]]);
}

/// In each sixth step, each layer makes four times as much. The steps of the new run differ by as
/// much, but the baseline never holds half of it.
#[test]
fn what_comes_now_and_then_and_makes_the_peak_is_told() {
    let mut lengths = vec![16 * MIB; 6];
    lengths[3] = 64 * MIB;
    let rare = Program {
        lengths,
        ..Program::default()
    };
    let rows = difference(&Program::default(), &rare).sites;
    let grown: Vec<i64> = (rows.iter())
        .filter(|row| row.change == SiteChange::Grown)
        .map(|row| row.peak)
        .collect();
    assert_eq!(grown, [4 * 48 * MIB as i64]);
    let rows = difference(&rare, &Program::default()).sites;
    let shrunk = rows.iter().filter(|row| row.change == SiteChange::Shrunk);
    assert_eq!(shrunk.count(), 1);
    // Batches of other lengths are no difference between two programs.
    let longer = |mib: u64| Program {
        lengths: [16, 20, 24, mib].map(|mib| mib * MIB).to_vec(),
        ..Program::default()
    };
    assert_eq!(difference(&longer(24), &longer(28)).sites, []);
}

/// One function makes a matrix in a line that the new run leaves out, and a flag in another.
#[test]
fn a_site_that_holds_next_to_nothing_now_is_at_the_line_that_is_gone() {
    let of = |matrix: &str| {
        let rest = "a free\nb alloc 8KiB at work model.py:36\nb free";
        let text = format!("w pre 100MiB\na alloc {matrix}\n{rest}");
        Profile::of(&crate::testing::trace(&text))
    };
    let large = of("512MiB at work model.py:33");
    for (left, line, named) in [
        ("8KiB at work model.py:36", 33, "work (model.py:33)"),
        // Lines move, and the new run's are those that one reads.
        ("200MiB at work model.py:40", 40, "work (model.py:33)"),
    ] {
        let difference = compare(&large, &of(left)).remove(0);
        let [row] = &difference.sites[..] else {
            panic!("{:?}", difference.sites)
        };
        assert_eq!(row.change, SiteChange::Shrunk);
        assert_eq!(row.place().map(|place| place.line), Some(line), "{left}");
        let told = format!("most of it in {named}");
        assert!(
            difference.headline.contains(&told),
            "{}",
            difference.headline
        );
    }
    let grown = compare(&of("8KiB at work model.py:36"), &large).remove(0);
    assert_eq!(grown.sites[0].place().map(|place| place.line), Some(33));
}

/// What the driver counts may differ where the program needs the same.
#[test]
fn reserved_is_told_where_allocated_is_the_same() {
    let profile = |reserved: u64, wrapped| {
        let mut profile = Program::default().profile();
        let device = &mut profile.devices[0];
        device.summary[Series::Reserved as usize].peak = Bytes::mib(reserved);
        device.wrapped = wrapped;
        profile
    };
    let headline = |base: u64, new: u64, wrapped| {
        let [base, new] = [base, new].map(|reserved| profile(reserved, wrapped));
        let difference = compare(&base, &new).remove(0);
        let is_same = matches!(difference.change, Change::None | Change::Moved);
        assert!(is_same || wrapped, "{}", difference.headline);
        difference.headline
    };
    let lower = headline(1616, 438, false);
    assert!(
        lower.contains(", reserved peaks 1.15 GiB lower (1.58 GiB → 438 MiB)"),
        "{lower}"
    );
    let higher = headline(500, 700, false);
    assert!(higher.contains("reserved peaks 200 MiB higher"), "{higher}");
    // As runs of one program differ, or little, or not all of it is known.
    for told in [
        headline(1000, 1200, false),
        headline(60, 100, false),
        headline(1616, 438, true),
    ] {
        assert!(!told.contains("reserved"), "{told}");
    }
}
