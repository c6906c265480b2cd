//! Names that a team gives.

use super::forward;
use crate::categories::*;
use crate::naming::Rules;
use crate::phases::program::{ADAM, Program};

/// One recording: a layer's blocks, an optimizer's state.
fn two_places() -> crate::trace::Trace {
    let mut p = Program::default();
    for _ in 0..2 {
        let saved = forward(&mut p, 2 << 20, 4);
        forward(&mut p, 512, 4);
        p.free(saved);
    }
    p.alloc(4096, &["<module> train.py:12", &format!("step {ADAM}:7")]);
    p.finish()
}

fn named(rules: &str) -> (crate::trace::Trace, Categories) {
    let mut trace = two_places();
    trace.stacks.own = Some(Rules::parse(rules).unwrap().into());
    let categories = Categories::of(&trace.devices[0], &trace.stacks);
    (trace, categories)
}

#[test]
fn a_team_s_own_names_come_on_top() {
    let check = |rules: &str, expected: [&str; 5]| {
        let (_, categories) = named(rules);
        let names = (0..5).map(|block| categories.get(BlockIdx(block)).name().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{rules}");
    };
    let [a, t, s] = ["activation", "temporary", "optimizer_state"];
    let ours = [a, a, a, a, s];
    let (_, without) = named("");
    let found: Vec<_> = (0..5)
        .map(|b| without.get(BlockIdx(b)).name().to_owned())
        .collect();
    assert!(
        found
            .iter()
            .all(|name| [a, t, s, "unknown"].contains(&name.as_str())),
        "{found:?}"
    );
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    let with = |at: &[usize], name: &'static str| {
        let mut names: Vec<&str> = found.clone();
        at.iter().for_each(|&at| names[at] = name);
        <[&str; 5]>::try_from(names).unwrap()
    };
    assert_eq!(ours.len(), found.len());
    check("net function=forward", with(&[0, 1, 2, 3], "net"));
    check("net file=*net.py size>=1MiB", with(&[0, 2], "net"));
    check("small size<=512", with(&[1, 3], "small"));
    check("adam module=torch.optim.*", with(&[4], "adam"));
    // The first line that holds takes a block; lines of one name are alternatives.
    check(
        "adam module=torch.optim.*\nall size>=0",
        with(&[0, 1, 2, 3], "all").map(|n| if n == s { "adam" } else { n }),
    );
    // Both conditions must hold for the same frame.
    check("x function=forward file=train.py", with(&[], "x"));
    check("x shape=[*]", with(&[], "x"));
}

#[test]
fn own_names_change_no_sum_and_no_inference() {
    let (trace, categories) = named("net function=forward\nx category=optimizer_state");
    let device = &trace.devices[0];
    let at = device.summary[0].peak_event;
    let shares = categories.alive(device, at);
    let all: u64 = shares
        .largest_first()
        .iter()
        .map(|(_, bytes)| bytes.get())
        .sum();
    let kinds = alive(device, at).map(|block| device.blocks.kind(block).size.get());
    assert_eq!(all, kinds.sum::<u64>());
    let plain = Categories::of(device, &two_places().stacks);
    for block in (0..device.blocks.len() as u32).map(BlockIdx) {
        assert_eq!(categories.found(block), plain.found(block));
        let kind = device.blocks.kind(block);
        let shown = categories.get(block);
        assert_eq!(
            is_inferred(&trace.stacks, kind, shown),
            shown.name() != "net"
        );
    }
    let rules = trace.stacks.own.as_deref().unwrap();
    let taken = own::preview(rules, device, &trace.stacks, at, Watch::nobody()).unwrap();
    let lines: Vec<_> = taken
        .iter()
        .map(|t| (t.line, t.name.as_str(), t.blocks))
        .collect();
    assert_eq!(lines, [(1, "net", 4), (2, "x", 1)]);
    let net: Named = "net".parse().unwrap();
    assert_eq!(taken[0].alive.bytes, shares.get(net));
}

#[test]
fn each_text_is_held_against_the_rules_once_and_the_watch_may_stop_it() {
    let mut trace = two_places();
    // Very many frames that share one name.
    let name = trace.stacks.strings.push(&"a".repeat(4096));
    for line in 0..100_000 {
        trace.stacks.push_frame(crate::stacks::Frame {
            name,
            filename: name,
            line,
        });
    }
    let slow: String = (0..60)
        .map(|at| format!("x{at} function=*{}b\n", "a".repeat(200)))
        .collect();
    let rules = Rules::parse(&slow).unwrap();
    let device = &trace.devices[0];
    let looks = std::cell::Cell::new(0);
    let go_on = |_| {
        looks.set(looks.get() + 1);
        true
    };
    let preview = |watch| own::preview(&rules, device, &trace.stacks, None, watch);
    assert!(preview(Watch::new(&go_on)).is_ok());
    assert!(looks.get() < 100, "{}", looks.get());
    assert!(preview(Watch::new(&|_| false)).is_err());
}
