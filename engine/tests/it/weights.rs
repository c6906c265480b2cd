//! Which weights of linear layers the offloader moves: `weight.t()` is what `nn.Linear` saves, and
//! recorded calls say what becomes of it in each release (docs/offloader-rules.md, "Pack").

use std::path::Path;

use engine::autograd::Tensor;
use engine::device::sim::{SimDevice, SimSpec};
use engine::offload::{Change, Changes, OffloadConfig, Release};
use engine::session::{Copied, RunError, Session};
use engine::tape::{Line, PackLine, TapeVersion};
use engine::tensor::DType;
use engine::workload::{declare_parameters, offloaded_pass};
use trace::units::Bytes;

const TOKENS: u64 = 512;
const WIDTH: u64 = 256;
const INNER: u64 = 1024;
const BF16: DType = DType::Bfloat16;
/// Each of the two weights.
const WEIGHT: Bytes = Bytes(2 * WIDTH * INNER);
/// What backward needs of the activations: the input of each layer.
const INPUTS: Bytes = Bytes(2 * TOKENS * (WIDTH + INNER));

/// A weight as a linear layer saves it: all of a storage, with rows and columns swapped.
fn is_transposed_weight(pack: &PackLine) -> bool {
    let whole = pack.offset == 0 && pack.bytes == pack.storage_bytes;
    match (&pack.shape[..], &pack.stride[..]) {
        (&[rows, columns], stride) => whole && columns > 1 && *stride == [1, rows],
        _ => false,
    }
}

/// Packed and moved weights of a recording.
fn weights_of(tape: &[Line]) -> (usize, usize) {
    let packs = tape.iter().filter_map(|line| match line {
        Line::Pack(pack) if is_transposed_weight(pack) => Some(pack),
        _ => None,
    });
    let moved = packs.clone().filter(|pack| pack.offloaded == Some(true));
    (packs.count(), moved.count())
}

/// A step of `down(up(x))`; `x` requires a gradient, so both weights are saved.
fn step(s: &mut Session, [up, down]: &[Tensor; 2]) -> Result<(), RunError> {
    offloaded_pass(s, |s| {
        let input = s.empty(&[TOKENS, WIDTH], BF16)?;
        s.initialise(&input)?;
        let x = s.leaf_over(&input);
        let inner = s.linear(&x, up)?;
        let out = s.linear(&inner, down)?;
        s.sum(&out)
    })
}

/// What the second of two steps copies.
fn copied(s: &mut Session) -> Copied {
    let up = s.parameter(&[INNER, WIDTH], BF16).unwrap();
    let down = s.parameter(&[WIDTH, INNER], BF16).unwrap();
    let weights = [up, down];
    declare_parameters(s, &weights);
    step(s, &weights).unwrap();
    let before = s.accelerator.copied();
    step(s, &weights).unwrap();
    let now = s.accelerator.copied();
    Copied {
        to_host: now.to_host - before.to_host,
        to_device: now.to_device - before.to_device,
    }
}

fn session() -> Session {
    Session::new(Box::new(SimDevice::new(SimSpec::default())))
}

/// The same with TRL's offloader, without streams: then nothing is served from a stash.
fn copied_by(changes: Changes) -> Copied {
    let mut s = session();
    s.install_offloader(OffloadConfig {
        use_streams: false,
        ..OffloadConfig::new(changes)
    })
    .unwrap();
    copied(&mut s)
}

fn both_ways(bytes: Bytes) -> Copied {
    Copied {
        to_host: bytes,
        to_device: bytes,
    }
}

/// Every recording in which linear layers save weights moves all of them or none, and the engine
/// moves the same ones. Until #4247 only `Parameter` itself was recognised; since then the storages
/// of parameters are.
#[test]
fn weights_move_in_the_releases_in_which_recorded_ones_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tapes");
    let mut releases = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(version) = TapeVersion::from_name(&name) else {
            continue;
        };
        let text = zstd::decode_all(&std::fs::read(&path).unwrap()[..]).unwrap();
        let (packed, moved) = weights_of(&engine::tape::read(&text[..]).unwrap());
        if packed == 0 {
            continue;
        }
        let all = Bytes(2 * WEIGHT.0) + INPUTS;
        let expected = match moved {
            0 => INPUTS,
            moved if moved == packed => all,
            _ => panic!("{name}: {moved} of {packed} weights moved"),
        };
        assert_eq!(copied_by(version.changes()), both_ways(expected), "{name}");
        releases.push((version.to_string(), moved > 0));
    }
    releases.sort();
    releases.dedup();
    let of = |moves: bool| {
        let found = releases.iter().filter(|(_, moved)| *moved == moves);
        found.map(|(label, _)| label.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(true), ["trl-0.18", "trl-0.24"]);
    let stay = ["trl-0.29", "trl-0.29+P4", "trl-1.14", "trl-1.4", "trl-1.5"];
    assert_eq!(of(false), [&stay[..], &["trl-1.8"]].concat());
}

/// axolotl's patch copies every tensor that is not contiguous and no `Parameter`, before TRL sees
/// it. The copy of a transposed weight is in no table of parameters, so it is moved.
#[test]
fn the_copies_of_axolotl_are_no_parameters() {
    let with = Release::TRL_1_8.changes();
    assert_eq!(copied_by(with), both_ways(INPUTS));
    let moved = both_ways(Bytes(2 * WEIGHT.0) + INPUTS);
    assert_eq!(copied_by(with.with(Change::ComputeStreamClone)), moved);
}
