//! Files that `torch.cuda._memory_viz` makes of a profile (`_profile_to_snapshot`,
//! `profile_plot`).
//!
//! They have the shape of a snapshot, but no allocator wrote them: one segment for each device
//! spans all addresses of its tensors, the last device is the CPU, and a frame is a name alone
//! (`train.py(64): step`), with objects' addresses in it.

use super::quality::note;
use crate::device::DeviceIdx;
use crate::quality_code;
use crate::snapshot::Snapshot;
use crate::stacks::{Frame, FxHashMap, Stacks, StrIdx};
use crate::trace::QualityNote;

/// What the profile says in place of a file.
const NO_FILE: &str = "none";
/// Paths are told without the folder that packages lie in: of PyTorch's own it is known.
const OF_TORCH: &str = "torch/";
const PACKAGES: &str = "site-packages/";
/// Where the address of an object begins.
const ADDRESS: &str = " object at 0x";

/// Takes the names of such a file's frames apart. Returns the note on it, which says which of its
/// devices is the CPU; `None` for all other files.
pub fn named(snapshot: &mut Snapshot) -> Option<QualityNote> {
    if !snapshot.of_profile() {
        return None;
    }
    name_frames(&mut snapshot.stacks);
    let cpu = snapshot.devices.len().saturating_sub(1);
    let cpu = DeviceIdx(cpu as u32).name();
    let text = format!(
        "made of a profile of torch.profiler: {cpu} is the CPU, sizes are those of tensors, and \
         what was reserved is not known"
    );
    Some(note(quality_code::MADE_OF_PROFILE, text))
}

/// Takes the names of frames apart: function, file, line.
fn name_frames(stacks: &mut Stacks) {
    let mut known: FxHashMap<StrIdx, Frame> = FxHashMap::default();
    let mut texts: std::collections::HashMap<String, StrIdx> = std::collections::HashMap::new();
    for at in 0..stacks.n_frames() {
        let frame = stacks.all_frames()[at];
        if frame.line > 0 || stacks.str(frame.filename) != NO_FILE {
            continue;
        }
        let named = known.get(&frame.name).copied().unwrap_or_else(|| {
            let whole = stacks.str(frame.name).to_owned();
            let (file, line, function) = parts(&whole).unwrap_or(("", 0, &whole));
            let folder = if file.starts_with(OF_TORCH) {
                PACKAGES
            } else {
                ""
            };
            let texts_of = [without_addresses(function), format!("{folder}{file}")];
            let [name, filename] = texts_of.map(|text| {
                let strings = &mut stacks.strings;
                *(texts.entry(text)).or_insert_with_key(|text| strings.push(text))
            });
            Frame {
                name,
                filename,
                line,
            }
        });
        known.insert(frame.name, named);
        stacks.all_frames_mut()[at] = named;
    }
}

/// `train.py(64): step`.
fn parts(name: &str) -> Option<(&str, u32, &str)> {
    let (place, function) = name.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    Some((file, line.parse().ok().filter(|line| *line > 0)?, function))
}

/// `<built-in method run_backward of torch._C._EngineBase object at 0x7f1ef9f307f0>` without the
/// address: it is another one in each run, and the code is the same.
fn without_addresses(name: &str) -> String {
    let mut parts = name.split(ADDRESS);
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    rest.fold(first, |text, part| text + part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::FrameIdx;

    #[test]
    fn names_of_a_profile_are_taken_apart() {
        let mut stacks = Stacks::default();
        let file = stacks.strings.push(NO_FILE);
        let names = [
            "train.py(64): step",
            "<built-in method linear of type object at 0x7f1ed4b3e180>",
            "<built-in method linear of type object at 0x7f1ed4b3e990>",
            "torch/optim/adam.py(214): step",
            "a(b): c(0): d",
        ];
        for text in names {
            let name = stacks.strings.push(text);
            let frame = Frame {
                name,
                filename: file,
                line: 0,
            };
            stacks.push_frame(frame);
        }
        name_frames(&mut stacks);
        let told = |at: u32| {
            let frame = stacks.frame(FrameIdx(at));
            let (name, file) = (stacks.str(frame.name), stacks.str(frame.filename));
            format!("{name}|{file}|{}", frame.line)
        };
        assert_eq!(told(0), "step|train.py|64");
        assert_eq!(told(1), "<built-in method linear of type>||0");
        assert_eq!(stacks.frame(FrameIdx(1)), stacks.frame(FrameIdx(2)));
        assert_eq!(told(3), "step|site-packages/torch/optim/adam.py|214");
        assert_eq!(told(4), "a(b): c(0): d||0");
    }
}
