//! Whether each request is made larger before it is rounded.
//!
//! torch_npu, PyTorch for Huawei's devices, has the same allocator, but for one rule: it adds
//! [`PADDING`] bytes to each request (`AddPadSize`), except on the newest devices. Its snapshots
//! have the same form and nothing in them says so. But the recorded addresses do: with the wrong
//! one of the two rules, hardly any block lies where the allocator would put it.

use super::followed::Followed;
use crate::allocator::{Config, PADDING};
use crate::trace::Fidelity;
use crate::watch::{Stopped, Watch};

/// From so many allocations on, their addresses tell by which rule they were found.
const TELLING: u64 = 64;

/// Follows a device under these rules, or under them with padded requests, where only that
/// explains most of its addresses.
pub fn follow(
    config: &Config,
    watch: Watch<'_>,
    under: impl Fn(&Config, Watch<'_>) -> Result<Followed, Stopped>,
) -> Result<Followed, Stopped> {
    let plain = under(config, watch)?;
    let Fidelity { allocs, predicted } = plain.simulated.fidelity;
    if allocs < TELLING || 2 * predicted >= allocs {
        return Ok(plain);
    }
    let config = Config {
        padding: PADDING,
        ..config.clone()
    };
    let padded = under(&config, watch.beside(plain.held))?;
    Ok(match 2 * padded.simulated.fidelity.predicted >= allocs {
        true => padded,
        false => plain,
    })
}
