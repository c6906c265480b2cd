//! What a site keeps beside its leak: made once, so it does not leak.

use super::*;
use crate::what_if::Early;

/// Where the loop and its data stand in one function, both are one site.
const MADE: [&str; 1] = ["keep train.py:3"];
const LEAKS: [&str; 1] = ["keep train.py:9"];

/// Ten steps that each keep what `size` says. The data are made in step 0, or before it.
fn program(data: u64, is_before: bool, size: fn(u32) -> u64) -> Program {
    let mut made = 0;
    let mut program = Program::run(10, |p, step| {
        if step == 0 {
            p.alloc(&MADE, data);
            made = p.n_events;
        }
        p.alloc(&LEAKS, size(step));
    });
    if is_before {
        program.scopes[0].1 = made;
    }
    program
}

fn three_mib(_: u32) -> u64 {
    3 << 20
}

#[test]
fn data_that_the_loop_uses_does_not_leak() {
    for is_before in [false, true] {
        // As much as a step leaks, or far more.
        for data in [4 << 20, 200 << 20] {
            let group = program(data, is_before, three_mib).leaks();
            let line = group.frame.map(|frame| frame.line);
            assert_eq!(line, Some(9), "the line that leaks is told");
            assert_eq!((group.live_count, group.live_bytes), (10, Bytes::mib(30)));
            let levels: Vec<Bytes> = (1..=10).map(|n| Bytes::mib(3 * n)).collect();
            assert_eq!(group.per_step, levels);
            assert_eq!(group.spared.len(), 1);
            // What if it did not leak: the data stay.
            let trace = program(data, is_before, three_mib).trace();
            let device = &trace.devices[0];
            let report = find(device, &trace.stacks, &[]);
            let early = Early::leaks(device, &trace.stacks, &report);
            let end = EventIdx(device.events.len() - 1);
            assert_eq!(early.overdue(device, end), Bytes::mib(27));
        }
    }
}

/// The loop's variable still holds the last batch, which is larger than all that leaks.
#[test]
fn the_batch_of_the_last_step_does_not_leak() {
    let mut batch = None;
    let group = Program::run(10, |p, _| {
        let next = p.alloc(&MADE, 200 << 20);
        if let Some(last) = batch.replace(next) {
            p.free(last);
        }
        p.alloc(&LEAKS, 4096);
    });
    let group = group.leaks();
    assert_eq!(group.frame.map(|frame| frame.line), Some(9));
    assert_eq!((group.live_count, group.live_bytes), (10, Bytes::kib(40)));
    assert_eq!(group.lines.map(|stacks| stacks.len()), Some(1));
}

/// What the first steps kept is of no size that comes again, but of one like the others.
#[test]
fn data_of_any_length_leak_from_the_first_step_on() {
    let group = program(200 << 20, false, |step| {
        (3 << 20) + u64::from((step + 5) % 10) * 4096
    });
    let group = group.leaks();
    assert_eq!((group.live_count, group.spared.len()), (10, 1));
}

/// What comes in a size that leaks was kept by it, wherever the recording begins.
#[test]
fn a_block_like_those_that_leak_is_one_of_them() {
    let group = program(3 << 20, true, three_mib).leaks();
    assert_eq!((group.live_count, group.spared.len()), (11, 0));
}

/// cuBLAS takes a workspace in the first product, which happens to be that of the line that leaks.
#[test]
fn a_workspace_at_the_line_that_leaks_is_not_counted() {
    const WORKSPACE: u64 = 32 << 20;
    let program = || {
        Program::run(10, |p, step| {
            if step == 0 {
                p.alloc(&KEEP, WORKSPACE);
            }
            p.alloc(&KEEP, 3 << 20);
        })
    };
    let group = program().leaks();
    assert_eq!((group.live_count, group.live_bytes), (10, Bytes::mib(30)));
    let levels: Vec<Bytes> = (1..=10).map(|n| Bytes::mib(3 * n)).collect();
    assert_eq!(group.per_step, levels);
    assert_eq!(group.spared.len(), 1);
    // What if it did not leak: only the workspace stays, and what the last step made until it ends.
    let trace = program().trace();
    let device = &trace.devices[0];
    let report = find(device, &trace.stacks, &[]);
    let early = crate::what_if::Early::leaks(device, &trace.stacks, &report);
    let end = EventIdx(device.events.len() - 1);
    assert_eq!(early.overdue(device, end), Bytes::mib(27));
    // All is given back in the end but the workspace: that is no leak that is never given back.
    let mut ended = program();
    ended.alive.retain(|&block| block != group.spared[0]);
    ended.end();
    let reason = ended.is(Verdict::Leak);
    assert!(reason.contains("given back only after"), "{reason}");
}

/// A leak of blocks that have the size of a workspace.
#[test]
fn many_blocks_of_that_size_are_no_workspaces() {
    let group = Program::run(10, |p, _| {
        p.alloc(&KEEP, 1 << 20);
    })
    .leaks();
    assert_eq!((group.live_count, group.live_bytes), (10, Bytes::mib(10)));
}

const QUEUED: [&str; 1] = ["keep train.py:5"];

/// A queue of three blocks on one line, and what leaks on another, in one function.
fn beside_a_queue(steps: u32, queued: u64) -> Program {
    let mut queue = Vec::new();
    Program::run(steps, |p, _| {
        queue.push(p.alloc(&QUEUED, queued));
        p.alloc(&LEAKS, 3 << 20);
        if queue.len() > 3 {
            p.free(queue.remove(0));
        }
    })
}

#[test]
fn a_queue_beside_a_leak_does_not_leak() {
    // Far larger than what leaks, and as large.
    for queued in [64 << 20, 3 << 20] {
        let group = beside_a_queue(12, queued).leaks();
        assert_eq!(group.frame.map(|frame| frame.line), Some(9), "{queued}");
        assert_eq!((group.live_count, group.live_bytes), (12, Bytes::mib(36)));
        assert_eq!(group.bytes_per_step, f64::from(3 << 20));
        let trace = beside_a_queue(12, queued).trace();
        let device = &trace.devices[0];
        let report = find(device, &trace.stacks, &[]);
        assert_eq!(
            report.bytes_per_step,
            f64::from(3 << 20),
            "{}",
            report.reason
        );
        // What if it did not leak: the queue stays.
        let early = Early::leaks(device, &trace.stacks, &report);
        let end = EventIdx(device.events.len() - 1);
        assert_eq!(early.overdue(device, end), Bytes::mib(33));
        assert_eq!(early.len(), 11);
    }
}

/// One list has what two lines make by turns. Its oldest fifth goes now and then, whichever made
/// it: neither line says more than the other.
#[test]
fn lines_that_fill_one_list_leak_together() {
    let mut list = Vec::new();
    let group = Program::run(24, |p, step| {
        let line = if step % 3 == 0 { QUEUED } else { LEAKS };
        list.push(p.alloc(&line, 3 << 20));
        p.alloc(&KEEP, 3 << 20);
        if step % 8 == 7 {
            p.free(list.pop().expect("it has one"));
        }
    });
    let (report, _) = group.report();
    let all: Bytes = report.groups.iter().map(|group| group.live_bytes).sum();
    assert_eq!(all, Bytes::mib(3 * (24 + 21)), "{}", report.reason);
}
