//! What an allocation site is called.

use super::names::Namer;
use crate::site::{self, SiteKey, Sites};
use crate::stacks::{Frame, StackIdx, Stacks, fx_hash};
use crate::trace::DeviceTrace;
use crate::workspaces;

/// What a workspace is called, in whichever operation it was taken.
const WORKSPACE: &str = "cuBLAS workspace";

/// Makes the workspaces of cuBLAS a site of their own, where C++ frames tell them: the line that
/// takes one has nothing to do with it.
pub(super) fn set_workspaces_apart(sites: &mut Sites, device: &DeviceTrace, stacks: &Stacks) {
    let own = sites.keys.len() as u32;
    let kinds = device.blocks.kinds.iter().zip(&mut sites.of_kind);
    let mut found = None;
    for (kind, site) in kinds {
        if workspaces::is_stack(stacks, kind.alloc_stack) {
            *site = own;
            found = Some(kind.alloc_stack);
        }
    }
    if let Some(stack) = found {
        sites.keys.push(SiteKey::Shape(fx_hash(WORKSPACE)));
        sites.stacks.push(stack);
    }
}

/// What a site is called: a workspace, or the frame that a person would recognise.
pub(super) fn headline(namer: &mut Namer<'_>, stack: StackIdx) -> Option<Frame> {
    match workspaces::is_stack(namer.stacks(), stack) {
        true => Some(workspace(namer)),
        false => recognised(namer, stack),
    }
}

fn workspace(namer: &mut Namer<'_>) -> Frame {
    Frame {
        name: namer.text(WORKSPACE),
        filename: namer.text(""),
        line: 0,
    }
}

/// The frame that a person would recognise. In a C++ stack that is the backward function, otherwise
/// the operator. The frames further in belong to the allocator and are the same in every stack.
fn recognised(namer: &mut Namer<'_>, stack: StackIdx) -> Option<Frame> {
    let stacks = namer.stacks();
    let frames = || {
        stacks
            .frames(stack)
            .iter()
            .map(|&frame| stacks.frame(frame))
    };
    if !frames().any(|frame| site::is_python(stacks, frame)) {
        for namespace in ["torch::autograd::generated::", "at::_ops::"] {
            let named = |frame: Frame| {
                let text = stacks.str(frame.name);
                let name = text.split_once(namespace)?.1.split("::").next()?;
                // All nodes share these functions.
                if name == "details" {
                    return None;
                }
                let name = name.split('(').next()?;
                Some((frame, name.trim_end_matches("_apply_functional")))
            };
            if let Some((frame, name)) = frames().find_map(named) {
                let name = namer.text(name);
                return Some(Frame {
                    name,
                    ..namer.frame(frame)
                });
            }
        }
    }
    stacks.headline(stack).map(|frame| namer.frame(frame))
}

/// The innermost function of the program itself in a stack, hashed with its module.
pub(super) fn own_function(stacks: &Stacks, stack: StackIdx) -> Option<u64> {
    let mut frames = stacks
        .frames(stack)
        .iter()
        .map(|&frame| stacks.frame(frame));
    let own = frames.find(|&frame| !site::is_framework(stacks, frame))?;
    let module = site::module(stacks.str(own.filename));
    Some(fx_hash(&(module, stacks.str(own.name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::program::Program;

    #[test]
    fn a_site_without_python_is_called_by_its_node() {
        let mut program = Program::default();
        let mut check = |frames: &[&str], expected: &str| {
            let stack = program.stack(frames);
            let mut namer = Namer::new(&program.builder.stacks);
            let frame = headline(&mut namer, stack).expect("it has frames");
            assert_eq!(namer.finish().place(frame).name, expected);
        };
        let node = "torch::autograd::generated::AddmmBackward0::apply";
        let functional = "torch::autograd::generated::AddmmBackward0_apply_functional";
        let shared = "torch::autograd::generated::details::mm_mat1_backward";
        check(
            &[node, functional, shared, "at::_ops::mm::call"],
            "AddmmBackward0",
        );
        check(&[node, "at::_ops::mm::call"], "AddmmBackward0");
        check(&["at::_ops::mm::call"], "mm");
        check(&["main train.py:3", node], "main");
    }
}
