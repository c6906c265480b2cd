//! What `tidemark bench` is asked for in names: configurations, bases and sets of patches. Each
//! runs once, however often it is named.

use super::CliError;
use engine::offload::Release;
use engine::patches::Patch;
use engine::systems::{Base, System};

/// The configurations to run. Of `all`, those that the bases do not go with are left out; why is
/// in the second list.
pub(super) fn configs(
    names: &[String],
    asked: &[Bases],
) -> Result<(Vec<&'static System>, Vec<String>), CliError> {
    if names.iter().any(|name| name == "all") {
        let mut systems = System::ALL.to_vec();
        let left_out = systems.iter().filter_map(|system| no_bases(system, asked));
        let left_out = left_out.collect();
        systems.retain(|system| no_bases(system, asked).is_none());
        return Ok((systems, left_out));
    }
    let system = |name: &String| {
        System::from_id(name).ok_or_else(|| {
            CliError::Usage(format!(
                "there is no configuration `{name}`; see `tidemark bench --help`"
            ))
        })
    };
    let systems: Result<Vec<&'static System>, CliError> = names.iter().map(system).collect();
    Ok((each_once(systems?), Vec::new()))
}

/// Why the bases that were asked for do not go with a configuration.
pub(super) fn no_bases(system: &System, asked: &[Bases]) -> Option<String> {
    let (id, named) = (system.id, |base| asked.contains(&Bases::One(base)));
    match system.base {
        _ if asked.is_empty() => None,
        Base::Program(_) => Some(format!("`{id}` has no offloader")),
        _ if named(Base::MsSwift) && !system.has_layers => Some(format!(
            "ms-swift's offloader moves layers that FSDP wraps, and `{id}` has none"
        )),
        _ => None,
    }
}

/// The TRL releases that can be named.
fn releases() -> String {
    format!("{} to {}", Release::ALL[0].label, Release::NEWEST_READ)
}

pub(super) fn base_help() -> String {
    format!(
        "What patches are applied to: TRL releases from {}, `save_on_cpu`, `hidden-states`, \
         `megatron-lm`, `none` for no offloading, or `all` of these; `ms-swift` where layers are \
         known; else each configuration's own",
        releases()
    )
}

/// The meaning of one word of `--base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bases {
    All,
    One(Base),
}

pub(super) fn bases_called(label: &str) -> Result<Bases, String> {
    match label {
        "all" => Ok(Bases::All),
        _ => Base::from_label(label).map(Bases::One).ok_or_else(|| {
            format!(
                "expected a TRL release from {}, save_on_cpu, hidden-states, megatron-lm, \
                 ms-swift, none or all",
                releases()
            )
        }),
    }
}

pub(super) fn bases(system: &System, asked: &[Bases]) -> Result<Vec<Base>, CliError> {
    if let Some(why) = no_bases(system, asked) {
        return Err(CliError::Usage(match system.base {
            Base::Program(_) => why + ": leave --base out",
            _ => why,
        }));
    }
    if asked.is_empty() {
        return Ok(vec![system.base]);
    }
    let bases = asked.iter().flat_map(|bases| match bases {
        Bases::All => Base::choices().collect(),
        Bases::One(base) => vec![*base],
    });
    Ok(each_once(bases.collect()))
}

/// The sets of patches to run on a base. `all` is what the base can take.
pub(super) fn sets(
    system: &System,
    base: Base,
    names: &[String],
) -> Result<Vec<Vec<&'static Patch>>, CliError> {
    if names.iter().any(|name| name == "all") {
        let mut sets = system.matrix();
        sets.retain(|set| set.iter().all(|patch| base.refuses(patch).is_none()));
        return Ok(sets);
    }
    let sets: Result<Vec<_>, CliError> =
        names.iter().map(|set| one_set(system, base, set)).collect();
    sets.map(each_once)
}

fn one_set(system: &System, base: Base, set: &str) -> Result<Vec<&'static Patch>, CliError> {
    let usage = |why: String| Err(CliError::Usage(why));
    let patches = Patch::set_from(set).map_err(|why| CliError::Usage(why.to_string()))?;
    if let Some(patch) = patches.iter().find(|patch| !(system.applies)(patch)) {
        return usage(format!("`{}` does not apply to `{}`", patch.id, system.id));
    }
    match patches.iter().find_map(|patch| base.refuses(patch)) {
        Some(why) => usage(why),
        None => Ok(patches),
    }
}

fn each_once<T: PartialEq>(asked: Vec<T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in asked {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn sets_of_patches_are_named_in_any_way_and_run_once() {
        let check = |sets_named: &[&str], expected: &[&[&str]]| {
            let sets = sets(System::VL_QWEN, System::VL_QWEN.base, &named(sets_named)).unwrap();
            let ids = |set: &Vec<&'static Patch>| set.iter().map(|p| p.id).collect::<Vec<_>>();
            assert_eq!(sets.iter().map(ids).collect::<Vec<_>>(), expected);
        };
        let (p3, p4, reset) = (
            "p3-exit-sync-and-clear",
            "p4-pack-contiguous",
            "enter-reset",
        );
        check(&["baseline"], &[&[]]);
        check(&["p3", "P3", "p3+p3"], &[&[p3]]);
        check(&["p4+p3", "p3+p4"], &[&[p3, p4]]);
        check(&["p3-exit-sync-and-clear+enter-reset"], &[&[p3, reset]]);
    }

    #[test]
    fn what_a_base_cannot_take_is_refused_in_words() {
        let check = |base: &str, set: &str, says: &str| {
            let base = Base::from_label(base).unwrap();
            let why = sets(System::VL_QWEN, base, &named(&[set])).unwrap_err();
            assert_eq!(why.exit_code(), 2);
            assert!(why.to_string().contains(says), "{why}");
        };
        check("trl-0.29", "p9", "no patch `p9`");
        check("trl-0.29", "loss-detach", "does not apply to");
        check("trl-1.14", "p3", "is in trl-1.14 already");
        check("none", "p4", "not part of none");
        let all = |base: &str| {
            let base = Base::from_label(base).unwrap();
            sets(System::VL_QWEN, base, &named(&["all"])).unwrap()
        };
        assert_eq!(all("trl-0.29"), System::VL_QWEN.matrix());
        assert!(!all("trl-1.14").contains(&vec![Patch::EXIT_SYNC_AND_CLEAR]));
        assert!(all("none").contains(&Vec::new()));
    }

    /// One that is named is refused, one of `all` is left out and told.
    #[test]
    fn of_all_configurations_those_that_have_the_base_run() {
        let check = |asked: &[Bases], without: &[&'static System]| {
            let (systems, told) = configs(&named(&["all"]), asked).unwrap();
            let rest = System::ALL.into_iter().filter(|one| !without.contains(one));
            assert_eq!(systems, rest.collect::<Vec<_>>());
            assert_eq!(told.len(), without.len());
            for (system, why) in without.iter().zip(&told) {
                assert!(why.contains(&format!("`{}`", system.id)), "{why}");
                assert_eq!(bases(system, asked).unwrap_err().exit_code(), 2);
            }
        };
        check(&[], &[]);
        let trl = bases_called("trl-1.14").unwrap();
        let programs = |system: &&System| matches!(system.base, Base::Program(_));
        let programs: Vec<&System> = System::ALL.into_iter().filter(programs).collect();
        assert!(!programs.is_empty());
        check(&[trl], &programs);
        check(&[Bases::All], &programs);
    }

    #[test]
    fn what_is_named_twice_runs_once() {
        let twice = named(&["dedupe-reuse", "vl-qwen3.5-9b", "dedupe-reuse"]);
        let (systems, _) = configs(&twice, &[]).unwrap();
        assert_eq!(systems, [System::REUSE, System::VL_QWEN]);
        let none = Bases::One(Base::NoOffloading);
        let one = bases(System::VL_QWEN, &[none, none]).unwrap();
        assert_eq!(one, [Base::NoOffloading]);
        let every = bases(System::VL_QWEN, &[Bases::All, none]).unwrap();
        assert_eq!(every.len(), Base::choices().count());
    }
}
