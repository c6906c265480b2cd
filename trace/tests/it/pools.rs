//! Programs with pools of their own, compared with what PyTorch counted.

use crate::recordings::{fixtures, replayed, truth};
use trace::trace::{PoolId, Series};

/// Every level is right to the byte, and addresses are predicted in pools that were given up, too.
#[test]
fn what_lies_in_pools_of_the_program_is_followed() {
    let check = |name: &str, unexplained: u64, has_gone: bool| {
        let path = fixtures().join(format!("pools/{name}.pickle.zst"));
        let (trace, truth) = (replayed(&path), truth(&path));
        let device = &trace.devices[0];
        for (series, of) in Series::ALL.into_iter().zip(device.summary) {
            let counted = |point: &str| truth[series.name()][point].as_u64().expect("a number");
            let told = (of.peak.0, of.end.0);
            assert_eq!(
                told,
                (counted("peak"), counted("end")),
                "{name}: {series:?}"
            );
        }
        let missed = device.fidelity.allocs - device.fidelity.predicted;
        assert_eq!(missed, unexplained, "{name}");
        let mut kinds = device.blocks.kinds.iter();
        let gone = kinds.any(|kind| kind.pool == PoolId::GONE);
        assert_eq!(gone, has_gone, "{name}");
    };
    check("deleted_plain", 0, true);
    check("deleted_expandable", 0, true);
    check("kept_past_plain", 3, true);
    check("no_split_plain", 0, false);
    check("no_split_expandable", 0, false);
    check("on_oom_expandable", 0, true);
}
