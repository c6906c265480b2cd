//! Storages that live one after another share a place. So few places are in use, and they stay in
//! the cache.

use super::{Op, Operand, Place, Script};

/// Gives each storage of a script a place for the time in which it exists. `shared` says which
/// storages the offloader may hold. `packed` and `unpacked` are the places of the tensors with
/// these numbers, and are rewritten too. Leaves and their gradients do not share their places.
pub(crate) fn assign_places(
    script: &mut Script,
    shared: &[bool],
    packed: &mut [Place],
    unpacked: &mut [Place],
    leaves: &mut [Place],
) {
    let mut assigned = Assigned {
        places: vec![Place::FIXED; shared.len()],
        vacant: Vec::new(),
        count: 1,
    };
    let mut operands = script.operands.iter_mut();
    let mut views = script.views.iter_mut();
    let own = own_places(&script.ops, shared.len(), leaves);
    for op in &mut script.ops {
        match op {
            Op::Allocate(place, stream, bytes) => {
                let (stream, bytes) = (*stream, *bytes);
                let is_shared = shared[place.0 as usize];
                let place = assigned.begin(*place);
                *op = match is_shared {
                    true => Op::Share(place, stream, bytes),
                    false => Op::Allocate(place, stream, bytes),
                };
            }
            Op::Share(..) => {}
            Op::Free(place) => {
                let storage = *place;
                *place = assigned.of(storage);
                if !own[storage.0 as usize] {
                    assigned.vacant.push(*place);
                }
            }
            Op::Launch { reads, writes, .. } => {
                let count = usize::from(*reads) + usize::from(*writes);
                for operand in operands.by_ref().take(count) {
                    match operand {
                        Operand::Part(place, ..) | Operand::Restored(place) => {
                            *place = assigned.of(*place);
                        }
                    }
                }
            }
            Op::Pack(number) => {
                let place = &mut packed[*number as usize];
                *place = assigned.of(*place);
            }
            Op::Unpack(number) => {
                let place = &mut unpacked[*number as usize];
                if *place != Place::FIXED {
                    *place = assigned.begin(*place);
                }
            }
            Op::Hooks(count) => {
                for (place, _) in views.by_ref().take(usize::from(*count)) {
                    *place = assigned.of(*place);
                }
            }
            Op::Gradient(_, place) => *place = assigned.of(*place),
            Op::Stream(_) | Op::Task(_) | Op::Enter | Op::Exit | Op::EndOfPass => {}
        }
    }
    for leaf in leaves {
        *leaf = assigned.of(*leaf);
    }
    script.places = assigned.count as usize;
}

/// Which storages keep their place, so that no other storage can use it later.
fn own_places(ops: &[Op], storages: usize, leaves: &[Place]) -> Vec<bool> {
    let mut own = vec![false; storages];
    let gradients = ops.iter().filter_map(|op| match op {
        Op::Gradient(_, place) => Some(place),
        _ => None,
    });
    for place in gradients.chain(leaves) {
        own[place.0 as usize] = true;
    }
    own
}

struct Assigned {
    /// The place of each storage.
    places: Vec<Place>,
    vacant: Vec<Place>,
    count: u32,
}

impl Assigned {
    fn of(&self, storage: Place) -> Place {
        self.places[storage.0 as usize]
    }

    fn begin(&mut self, storage: Place) -> Place {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.count += 1;
            Place(self.count - 1)
        });
        self.places[storage.0 as usize] = place;
        place
    }
}
