//! Memory and time that a comparison takes are bounded.

use super::*;
use crate::clip::LONGEST_SHOWN;

/// A trace with so many stacks, of one block of these bytes each. Each has a frame of its own and
/// shares the others, whose names have 4 KiB.
fn of_shared_names(
    [stacks, frames]: [usize; 2],
    bytes: u64,
    own: impl Fn(usize) -> [String; 2],
) -> Trace {
    let mut builder = TraceBuilder::default();
    let long = "n".repeat(4096);
    let shared: Vec<FrameIdx> = (0..frames)
        .map(|at| {
            let single = builder.stack(&format!("{at}{long}"), &format!("/{long}/{at}.py"), 1);
            builder.stacks.frames(single)[0]
        })
        .collect();
    for at in 0..stacks {
        let [name, file] = own(at);
        let single = builder.stack(&name, &file, 1);
        let mut members = vec![builder.stacks.frames(single)[0]];
        members.extend_from_slice(&shared);
        let alloc_stack = builder.stacks.push_stack(&members);
        builder.alloc(crate::trace::BlockKind {
            alloc_stack,
            ..block_of(Bytes(bytes))
        });
    }
    builder.finish()
}

#[test]
fn names_that_many_stacks_share_are_kept_once_and_cut() {
    let own = |tag: &'static str| move |at| [format!("{tag}{at}"), "a.py".to_owned()];
    let (base, new) = (own("x"), own("y"));
    let [base, new] = [
        Profile::of(&of_shared_names([3000, 47], MIB, base)),
        Profile::of(&of_shared_names([3000, 47], 2 * MIB, new)),
    ];
    // Copies of all names would take 3000 × 48 × 2 KiB.
    assert!(
        base.heap_bytes() < 8 * MIB as usize,
        "{}",
        base.heap_bytes()
    );
    let difference = compare(&base, &new).remove(0);
    assert_eq!(difference.sites.len(), sites::MAX_ROWS);
    assert!(difference.sites_left_out > 4000);
    let answer = serde_json::to_vec(&difference).unwrap();
    assert!(answer.len() < 32 * MIB as usize, "{}", answer.len());
    let first = difference.sites[0]
        .new
        .as_ref()
        .or(difference.sites[0].base.as_ref());
    let frame = &first.unwrap().frames[1];
    assert!(frame.name.len() <= LONGEST_SHOWN && frame.name.ends_with('…'));
}

#[test]
fn the_watch_learns_what_a_profile_takes_and_stops_it() {
    let trace = of_shared_names([2000, 47], MIB, |at| [format!("x{at}"), "a.py".to_owned()]);
    let most = std::cell::Cell::new(0);
    let go_on = |held: usize| {
        most.set(most.get().max(held));
        true
    };
    let profile = Profile::judged_while(&trace, Watch::nobody(), Watch::new(&go_on)).unwrap();
    let weight = profile.heap_bytes();
    assert!(most.get() * 11 / 10 >= weight, "{} {weight}", most.get());
    let stopped = Profile::judged_while(&trace, Watch::nobody(), Watch::new(&|n| n < 1 << 20));
    assert_eq!(stopped, Err(Stopped));
}

#[test]
fn pairs_of_all_buckets_together_are_bounded() {
    // Forty functions, each in a hundred and fifty renamed files: 900,000 pairs in each of three
    // rounds.
    let program = |tag: &'static str| {
        let own = move |at: usize| [format!("f{}", at % 40), format!("{tag}{at}.py")];
        Profile::of(&of_shared_names([6000, 0], MIB, own))
    };
    let (base, new) = (program("x"), program("y"));
    let looks = std::cell::Cell::new(0);
    let go_on = |_| {
        looks.set(looks.get() + 1);
        true
    };
    let found = crate::compare::compare(&base, &new, Watch::new(&go_on)).unwrap();
    assert!(looks.get() < 1_000_000 / 256 + 100, "{}", looks.get());
    // Renamed files are still found.
    let renamed = found[0].sites_same as usize;
    assert_eq!(renamed, 6000, "{:?}", found[0].sites.first());
    let stopped = crate::compare::compare(&base, &new, Watch::new(&|_| false));
    assert_eq!(stopped, Err(Stopped));
}
