//! The frontier: memory peak against step time, for every offloader and several fractions, on the
//! stack of docs/measurements.md, "Copies". It is kept as data, and `tests/it/frontier.rs` computes
//! it again.

use std::sync::{Barrier, OnceLock};

use api::bench::{
    DeviceKind, Frontier, FrontierCard, FrontierKind, FrontierLimits, FrontierMeasured,
    FrontierPoint,
};
use serde::{Deserialize, Serialize};

use super::copies::{CopyVariant, PLAIN_COPY, PRODUCT_RATE};
use super::run::open;
use super::spec::CopyStream;
use super::timing::Timing;
use crate::device::cuda::{Addresses, plain_rates};
use crate::device::sim::{CostModel, SimSpec};
use crate::device::{Compute, Ordinal};
use crate::offload::{OffloadConfig, Release};
use crate::session::{Around, HostKey, Limits, ModuleOffload, RunError, Session, Share};
use crate::systems::Base;
use crate::workload::{DuplexStack, Keeps, MlpStack, Workload};
use trace::units::Bytes;

/// Where the frontier is kept.
const FILE: &str = "engine/results/frontier.json";
const TEXT: &str = include_str!("../../results/frontier.json");

/// Where the frontier of a card is kept.
const CARD_FILE: &str = "engine/results/frontier-h200.json";
const CARD_TEXT: &str = include_str!("../../results/frontier-h200.json");

/// Tokens of a sample, as in the measured steps.
const TOKENS: u64 = 8192;

/// Shares of the modules that are tried, in percent.
const SHARES: [u8; 5] = [0, 25, 50, 75, 100];

/// Tidemark's own offloader, which copies in both directions at once.
const DUPLEX: &str = "duplex";

/// How many copies may be under way, in the points that limit it.
const FEW_IN_FLIGHT: u32 = 1;

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontierSpec {
    /// Where to run.
    pub device: DeviceKind,
    /// How many steps of a point are timed.
    pub steps: u32,
    /// Which of the host's devices.
    pub ordinal: Ordinal,
}

/// What a run of the frontier prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FrontierTable {
    /// Device that ran it.
    pub device: String,
    /// Which of the host's devices that is.
    #[serde(default)]
    pub device_index: Ordinal,
    /// What computed the matrix products on a card, or what replaced them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
    /// What ran, in words.
    pub workload: String,
    /// What bounds every point.
    pub limits: FrontierLimits,
    /// The points.
    pub points: Vec<FrontierPoint>,
}

/// The file: what a command printed, and when.
#[derive(Default, Deserialize)]
struct Kept {
    command: String,
    date: String,
    /// Where it ran, if that matters.
    #[serde(default)]
    machine: Machine,
    table: FrontierTable,
}

/// A machine with a card.
#[derive(Default, Deserialize)]
struct Machine {
    gpu: String,
    driver: String,
}

/// The frontier from the file. Empty if the file cannot be read; a test makes sure that it can.
pub fn frontier() -> &'static Frontier {
    static FRONTIER: OnceLock<Frontier> = OnceLock::new();
    FRONTIER.get_or_init(|| {
        let kept = serde_json::from_str::<Kept>(TEXT).unwrap_or_default();
        Frontier {
            command: kept.command,
            date: kept.date,
            file: FILE.to_owned(),
            device: kept.table.device,
            workload: kept.table.workload,
            limits: kept.table.limits,
            points: kept.table.points,
            card: on_card(CARD_TEXT),
        }
    })
}

/// The points that a card ran.
fn on_card(text: &str) -> FrontierCard {
    let kept = serde_json::from_str::<Kept>(text).unwrap_or_default();
    FrontierCard {
        command: kept.command,
        date: kept.date,
        file: CARD_FILE.to_owned(),
        // Files from before products were computed do not have this field.
        compute: match kept.table.compute {
            Some(compute) => compute,
            None => Compute::StandIn.to_string(),
        },
        machine: format!("{}, driver {}", kept.machine.gpu, kept.machine.driver),
        points: kept.table.points,
    }
}

/// An offloader on the stack.
struct Variant {
    label: String,
    kind: FrontierKind,
    around: Around,
    release: Option<&'static Release>,
    copies: CopyStream,
    keeps: Keeps,
    /// The same offloader among the measured variants, if it is there.
    measured: Option<CopyVariant>,
}

impl Variant {
    fn new(label: impl Into<String>, kind: FrontierKind, base: Base) -> Variant {
        Variant {
            label: label.into(),
            kind,
            around: base.around(),
            release: match base {
                Base::Release(release) => Some(release),
                _ => None,
            },
            copies: CopyStream::Side,
            keeps: Keeps::All,
            measured: None,
        }
    }

    /// Every point.
    fn all() -> Vec<Variant> {
        use FrontierKind::{Other, Recompute, Stays, Trl};
        let mut all = vec![
            Variant {
                measured: Some(CopyVariant::None),
                ..Variant::new("none", Stays, Base::NoOffloading)
            },
            Variant {
                keeps: Keeps::Input,
                ..Variant::new("checkpoints", Recompute, Base::NoOffloading)
            },
            Variant {
                keeps: Keeps::Input,
                ..Variant::new("hidden-states", Recompute, Base::HiddenStates)
            },
        ];
        all.extend(Release::ALL.map(|release| Variant {
            measured: CopyVariant::of(release),
            ..Variant::new(release.label, Trl, Base::Release(release))
        }));
        all.extend([
            Variant {
                copies: CopyStream::Compute,
                measured: Some(CopyVariant::V6SingleStream),
                ..Variant::new(
                    "trl-1.8 without streams",
                    Trl,
                    Base::Release(Release::TRL_1_8),
                )
            },
            Variant::new("save_on_cpu", Other, Base::SaveOnCpu),
            Variant {
                around: Around::Modules(ModuleOffload::MsSwift(HostKey::View)),
                ..Variant::new("ms-swift with #10157", Other, Base::MsSwift)
            },
        ]);
        let shares = SHARES.into_iter().filter_map(Share::percent);
        all.extend(shares.map(|share| Variant::megatron(share, None)));
        all.push(Variant::megatron(Share::ALL, Some(FEW_IN_FLIGHT)));
        all.push(Variant {
            around: Around::Modules(ModuleOffload::Duplex),
            ..Variant::new(DUPLEX, Other, Base::NoOffloading)
        });
        all
    }

    fn megatron(share: Share, in_flight: Option<u32>) -> Variant {
        let percent = share.as_percent();
        let label = match in_flight {
            None => format!("megatron-lm {percent} %"),
            Some(most) => format!("megatron-lm {percent} %, {most} in flight"),
        };
        let limits = Limits { share, in_flight };
        Variant {
            around: Around::Modules(ModuleOffload::Megatron(limits)),
            ..Variant::new(label, FrontierKind::Fraction, Base::MegatronLm)
        }
    }
}

/// Runs every point.
///
/// # Errors
/// The device cannot be opened, or plain copies fail.
pub fn run_frontier(spec: &FrontierSpec) -> Result<FrontierTable, RunError> {
    run_beside(spec, &|| {})
}

/// Runs every point on each of the first devices of the host, all of them at the same time.
///
/// # Errors
/// As for [`run_frontier`]; if several devices fail, the error of the first one.
pub fn run_frontiers(spec: &FrontierSpec, devices: u16) -> Result<Vec<FrontierTable>, RunError> {
    let together = Barrier::new(usize::from(devices));
    std::thread::scope(|scope| {
        let start = |ordinal| {
            let spec = FrontierSpec {
                ordinal: Ordinal(ordinal),
                ..*spec
            };
            let together = &together;
            scope.spawn(move || {
                let wait = &|| {
                    together.wait();
                };
                run_beside(&spec, wait)
            })
        };
        let running: Vec<_> = (0..devices).map(start).collect();
        let joined = running.into_iter().map(|run| match run.join() {
            Ok(table) => table,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

/// Runs every point. `together` is called before each point, also after a failure, so that all
/// devices call it equally often.
fn run_beside(spec: &FrontierSpec, together: &dyn Fn()) -> Result<FrontierTable, RunError> {
    let sim = SimSpec {
        cost: CostModel {
            flops_per_second: PRODUCT_RATE,
            ..CostModel::default()
        },
        ..SimSpec::default()
    };
    together();
    let rates = match spec.device {
        DeviceKind::Cuda => {
            plain_rates(PLAIN_COPY, spec.ordinal).map(|rates| (rates.to_host, rates.to_device))
        }
        DeviceKind::Sim => Ok((sim.cost.to_host_rate, sim.cost.to_device_rate)),
    };
    let run = |variant| {
        together();
        run_point(spec, sim, &variant)
    };
    let run: Vec<_> = Variant::all().into_iter().map(run).collect();
    let run: Vec<_> = run.into_iter().collect::<Result<_, _>>()?;
    let (to_host, to_device) = rates?;
    let compute = run.iter().find_map(|(_, compute)| *compute);
    let points: Vec<FrontierPoint> = run.into_iter().map(|(point, _)| point).collect();
    let alone = points.first();
    Ok(FrontierTable {
        device: open(spec.device, sim, Addresses::default(), spec.ordinal)?.name(),
        device_index: spec.ordinal,
        compute: compute.map(|compute| compute.to_string()),
        workload: format!(
            "24 blocks of Linear(4096, 12288), GELU, Linear(12288, 4096), bf16, {TOKENS} tokens"
        ),
        limits: FrontierLimits {
            compute_seconds: alone.map_or(0.0, |alone| alone.step_seconds),
            peak: alone.map_or(Bytes::ZERO, |alone| alone.peak_allocated),
            to_host,
            to_device,
        },
        points,
    })
}

/// The point, and what computed its products.
fn run_point(
    spec: &FrontierSpec,
    sim: SimSpec,
    variant: &Variant,
) -> Result<(FrontierPoint, Option<Compute>), RunError> {
    let sim = match variant.around {
        Around::Modules(ModuleOffload::Duplex) => SimSpec {
            cost: sim.cost.both_ways(),
            ..sim
        },
        _ => sim,
    };
    let device = open(spec.device, sim, Addresses::default(), spec.ordinal)?;
    let mut session = Session::new(device);
    let mut timing = Timing::on(spec.device);
    let failure = run_steps(spec, variant, &mut session, &mut timing).err();
    let copied = timing.copied_a_step();
    let spoilt = session.accelerator.detector().map_or(0, |all| all.spoilt());
    let mut heap = session.heap().borrow_mut();
    let hardware = heap.device.hardware().unwrap_or(None);
    let measured = variant.measured.and_then(|of| of.measured(TOKENS));
    let compute = heap.device.compute();
    let point = FrontierPoint {
        label: variant.label.clone(),
        kind: variant.kind,
        peak_active: heap.caching.highest_active(),
        peak_allocated: heap.caching.highest_allocated(),
        peak_reserved: heap.caching.highest_reserved(),
        step_seconds: timing.step_seconds(),
        to_host: copied.to_host,
        to_device: copied.to_device,
        corrupted_tensors: hardware.map_or(spoilt, |seen| seen.corrupted_tensors),
        failure: failure.map(|error| error.to_string()),
        measured: measured.and_then(|measured| {
            Some(FrontierMeasured {
                step_seconds: measured.step_seconds,
                peak_allocated: measured.peak_allocated?,
            })
        }),
    };
    Ok((point, compute))
}

fn run_steps(
    spec: &FrontierSpec,
    variant: &Variant,
    session: &mut Session,
    timing: &mut Timing,
) -> Result<(), RunError> {
    session.surround(variant.around)?;
    if let Some(release) = variant.release {
        session.install_offloader(OffloadConfig {
            use_streams: variant.copies == CopyStream::Side,
            ..OffloadConfig::new(release.changes())
        })?;
    }
    let stack = MlpStack::new(session, TOKENS, 1)?;
    let stack = stack.keeping(variant.keeps);
    let mut stack: Box<dyn Workload> = match variant.around {
        Around::Modules(ModuleOffload::Duplex) => Box::new(DuplexStack::new(stack)),
        _ => Box::new(stack),
    };
    session.accelerator.watch_races();
    timing.run(spec.steps, session, |session| {
        stack.step(session)?;
        session.read_loss()?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same points without the library.
    const STAND_IN: &str = include_str!("../../results/frontier-h200-stand-in.json");
    /// The points on two cards of one host at the same time, and on one card alone.
    const TWO: &str = include_str!("../../results/frontier-h200-x2.json");

    fn steps_of(table: &FrontierTable, label: &str) -> f64 {
        let found = table.points.iter().find(|point| point.label == label);
        found.unwrap().step_seconds
    }

    fn parsed(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }

    fn table_in(value: &serde_json::Value) -> FrontierTable {
        serde_json::from_value(value.clone()).unwrap()
    }

    /// The tables of both cards that ran at the same time.
    fn tables_of_two() -> Vec<FrontierTable> {
        let file = parsed(TWO);
        let tables = file["together"]["tables"].as_array().unwrap();
        tables.iter().map(table_in).collect()
    }

    /// How many times as many steps `duplex` makes as TRL 1.14, in a table or in steps by name.
    fn gain_of_table(table: &FrontierTable) -> f64 {
        steps_of(table, "trl-1.14") / steps_of(table, DUPLEX)
    }

    fn gain_of_steps(steps: &serde_json::Value) -> f64 {
        let [trl, ours] = ["trl-1.14", DUPLEX].map(|label| steps[label].as_f64().unwrap());
        trl / ours
    }

    /// The gains in every stored run on one card with real products.
    fn gains_on_one_card() -> Vec<f64> {
        let (one, two) = (parsed(CARD_TEXT), parsed(TWO));
        let alone = &two["alone"];
        let again = [&one["again"], &alone["again"]];
        let again = again.into_iter().flat_map(|runs| runs.as_array().unwrap());
        let mut gains: Vec<f64> = again.map(gain_of_steps).collect();
        gains.push(gain_of_steps(&alone["2026-11-23"]));
        gains.extend([&one["table"], &alone["table"]].map(|run| gain_of_table(&table_in(run))));
        gains
    }

    /// The gains in every stored run on two cards of one host at the same time.
    fn gains_on_two_cards() -> Vec<f64> {
        let file = parsed(TWO);
        let together = &file["together"];
        let again = together["again"].as_array().unwrap();
        let runs = again.iter().chain([&together["2026-11-23"]]);
        let cards = runs.flat_map(|run| run.as_array().unwrap());
        let mut gains: Vec<f64> = cards.map(gain_of_steps).collect();
        gains.extend(tables_of_two().iter().map(gain_of_table));
        gains
    }

    /// Copies of both cards share the host's memory, so copying in both directions at once gains
    /// less. It still gains.
    #[test]
    fn two_cards_at_once_leave_duplex_less_of_its_gain() {
        let tables = tables_of_two();
        let numbers: Vec<u16> = tables.iter().map(|table| table.device_index.0).collect();
        assert_eq!(numbers, [0, 1]);
        for table in &tables {
            assert_eq!(table.compute.as_deref(), Some("cublasLt 13.1.0 bf16"));
        }
        let (alone, together) = (gains_on_one_card(), gains_on_two_cards());
        assert_eq!((alone.len(), together.len()), (6, 8));
        let least_alone = alone.iter().copied().fold(f64::MAX, f64::min);
        for gain in together {
            assert!((1.35..1.55).contains(&gain), "{gain}");
            assert!(gain < least_alone, "{gain}, {least_alone}");
        }
    }

    /// The first two numbers with two decimals and `to` between them, after each of `marks`.
    fn gain_in(text: &str, marks: &[&str]) -> Option<[f64; 2]> {
        let after = |text, mark: &&str| str::split_once(text, *mark).map(|(_, after)| after);
        let text = marks.iter().try_fold(text, after)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |word: &str| {
            let word = word.trim_matches(['(', ':', ';', ',', '*']);
            (word.len() == 4)
                .then(|| word.parse::<f64>().ok())
                .flatten()
        };
        let of = |three: &[&str]| Some([number(three[0])?, number(three[2])?]);
        let mut found = words.windows(3).filter(|three| three[1] == "to");
        found.find_map(of)
    }

    /// What the documents say of `duplex` is no better than the stored runs.
    #[test]
    fn documents_claim_no_more_of_duplex_than_was_stored() {
        let check = |page: &str, marks: &[&str], gains: &[f64]| {
            let least = gains.iter().copied().fold(f64::MAX, f64::min);
            let most = gains.iter().copied().fold(0.0, f64::max);
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            let text = std::fs::read_to_string(root.join(page)).unwrap();
            let [from, to] = gain_in(&text, marks).unwrap_or_else(|| panic!("{page} has a range"));
            let rounded = 0.005;
            let claims_no_more = from <= least + rounded && to <= most + rounded;
            assert!(claims_no_more, "{page}: {from} to {to}, {gains:?}");
        };
        for page in ["docs/budgets.md", "CHANGELOG.md", "docs/offloaders.md"] {
            check(page, &["`duplex`"], &gains_on_one_card());
            check(
                page,
                &["`duplex`", "two cards of one host"],
                &gains_on_two_cards(),
            );
        }
    }

    /// Cards hold and copied what the simulation does, in the steps after the warm-up: with real
    /// products or a stand-in, and alone or beside another card.
    #[test]
    fn the_cards_held_and_copied_what_the_simulation_does() {
        let computed = frontier();
        let check = |points: &[FrontierPoint]| {
            assert_eq!(points.len(), Variant::all().len());
            for (point, computed) in points.iter().zip(&computed.points) {
                let of_card = FrontierPoint {
                    step_seconds: computed.step_seconds,
                    corrupted_tensors: computed.corrupted_tensors,
                    ..point.clone()
                };
                assert_eq!(&of_card, computed);
            }
        };
        check(&computed.card.points);
        check(&on_card(STAND_IN).points);
        check(&table_in(&parsed(TWO)["alone"]["table"]).points);
        for table in tables_of_two() {
            check(&table.points);
        }
    }

    /// A tensor comes back wrong on a card only under Megatron-LM's offloader.
    #[test]
    fn only_megatron_lm_restores_wrong_bytes() {
        let mut points = frontier().card.points.clone();
        points.extend(on_card(STAND_IN).points);
        points.extend(tables_of_two().into_iter().flat_map(|table| table.points));
        for point in points {
            let most = match point.kind {
                FrontierKind::Fraction => 3,
                _ => 0,
            };
            assert!(point.corrupted_tensors <= most, "{}", point.label);
        }
    }

    #[test]
    fn what_computed_the_products_is_kept() {
        let check = |text: &str, expected: &str| {
            let card = on_card(text);
            assert!(card.points.len() >= 20, "{}", card.points.len());
            assert_eq!(card.compute, expected);
        };
        check(CARD_TEXT, "cublasLt 13.1.0 bf16");
        check(STAND_IN, "stand-in kernel");
        // Like files from before cuBLASLt was used.
        let mut old: serde_json::Value = serde_json::from_str(CARD_TEXT).unwrap();
        let removed = old["table"].as_object_mut().unwrap().remove("compute");
        assert!(removed.is_some());
        check(&old.to_string(), "stand-in kernel");
    }
}
