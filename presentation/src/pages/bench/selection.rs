//! The ticks (configurations × sets of patches), and the request that they make.

use api::bench::{BenchCatalog, BenchChoice, BenchConfig, DeviceKind, StartBench};
use std::collections::BTreeSet;
use trace::units::Bytes;

/// A line of the matrix of choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// One patch alone.
    Patch(String),
    /// The combination that was published or merged.
    Combination,
    /// Each fix added to the earlier ones, in the order in which upstream merged them.
    Chain,
}

impl Line {
    /// All lines.
    pub fn all(catalog: &BenchCatalog) -> Vec<Line> {
        let patches = catalog.patches.iter();
        let patches = patches.map(|patch| Line::Patch(patch.id.clone()));
        patches.chain([Line::Combination, Line::Chain]).collect()
    }

    /// The sets of patches that this line stands for in a configuration; none if it does not apply.
    pub fn sets(&self, config: &BenchConfig) -> Vec<Vec<String>> {
        match self {
            Line::Patch(id) if config.applicable.contains(id) => vec![vec![id.clone()]],
            Line::Patch(_) => Vec::new(),
            Line::Combination if config.combination.is_empty() => Vec::new(),
            Line::Combination => vec![config.combination.clone()],
            // A chain with one patch is the patch alone.
            Line::Chain if config.chain.len() < 2 => Vec::new(),
            Line::Chain => config.chain.clone(),
        }
    }
}

/// What is ticked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Configurations, whose baselines run.
    configs: BTreeSet<String>,
    /// Sets of patches, with their configuration.
    sets: BTreeSet<(String, Vec<String>)>,
}

impl Selection {
    /// Everything that applies to one configuration.
    pub fn everything(catalog: &BenchCatalog, config: &str) -> Selection {
        let mut selection = Selection::default();
        if let Some(config) = catalog.configs.iter().find(|c| c.id == config) {
            selection.set_config(catalog, config, true);
        }
        selection
    }

    /// Whether the configuration's baseline runs.
    pub fn has_config(&self, config: &BenchConfig) -> bool {
        self.configs.contains(&config.id)
    }

    /// Whether all sets that a line stands for in a configuration are ticked.
    pub fn has(&self, line: &Line, config: &BenchConfig) -> bool {
        let sets = line.sets(config);
        let ticked = |set: Vec<String>| self.sets.contains(&(config.id.clone(), set));
        !sets.is_empty() && sets.into_iter().all(ticked)
    }

    /// Ticks or unticks a whole configuration.
    pub fn set_config(&mut self, catalog: &BenchCatalog, config: &BenchConfig, on: bool) {
        if on {
            self.configs.insert(config.id.clone());
            for line in Line::all(catalog) {
                self.set(&line, config, true);
            }
        } else {
            self.configs.remove(&config.id);
            self.sets.retain(|(id, _)| *id != config.id);
        }
    }

    /// Ticks or unticks the sets that a line stands for in a configuration. Without its chain, a
    /// configuration keeps its patches alone.
    pub fn set(&mut self, line: &Line, config: &BenchConfig, on: bool) {
        for set in line.sets(config) {
            let alone = *line == Line::Chain && set.len() == 1;
            if on {
                self.configs.insert(config.id.clone());
                self.sets.insert((config.id.clone(), set));
            } else if !alone {
                self.sets.remove(&(config.id.clone(), set));
            }
        }
    }

    /// The number of rows, including baselines.
    pub fn rows(&self) -> usize {
        self.configs.len() + self.sets.len()
    }

    /// The rows to ask for, in the order of the catalog.
    pub fn choices(&self, catalog: &BenchCatalog) -> Vec<BenchChoice> {
        let mut choices = Vec::new();
        for config in catalog.configs.iter().filter(|c| self.has_config(c)) {
            let choice = |patches: Vec<String>| BenchChoice {
                config: config.id.clone(),
                patches,
            };
            choices.push(choice(Vec::new()));
            let mut asked: Vec<Vec<String>> = Vec::new();
            for set in Line::all(catalog).iter().flat_map(|line| line.sets(config)) {
                let ticked = self.sets.contains(&(config.id.clone(), set.clone()));
                if ticked && !asked.contains(&set) {
                    asked.push(set);
                }
            }
            choices.extend(asked.into_iter().map(choice));
        }
        choices
    }
}

/// The fields beside the matrix, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where.
    pub device: DeviceKind,
    /// Steps; empty for each configuration's own number.
    pub steps: String,
    /// Device memory as a size; empty for the configuration's own.
    pub capacity: String,
    /// Steps recorded event by event; empty for the server's default.
    pub recorded: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            device: DeviceKind::Sim,
            steps: String::new(),
            capacity: String::new(),
            recorded: String::new(),
        }
    }
}

/// The request.
///
/// # Errors
/// A sentence that says which field is wrong.
pub fn request(
    selection: &Selection,
    settings: &Settings,
    catalog: &BenchCatalog,
) -> Result<StartBench, String> {
    let limits = catalog.limits;
    Ok(StartBench {
        rows: selection.choices(catalog),
        device: settings.device,
        steps: number("Steps", &settings.steps, limits.steps)?,
        capacity: capacity(&settings.capacity)?,
        recorded_steps: number(
            "Recorded steps",
            &settings.recorded,
            limits.most_recorded_steps,
        )?,
    })
}

fn number(what: &str, text: &str, most: u32) -> Result<Option<u32>, String> {
    match text.trim() {
        "" => Ok(None),
        text => match text.parse() {
            Ok(n) if (1..=most).contains(&n) => Ok(Some(n)),
            _ => Err(format!("{what}: a whole number from 1 to {most}.")),
        },
    }
}

fn capacity(text: &str) -> Result<Option<Bytes>, String> {
    const SMALLEST: Bytes = Bytes::mib(16);
    match text.trim() {
        "" => Ok(None),
        text => match text.parse::<Bytes>() {
            Ok(size) if size >= SMALLEST => Ok(Some(size)),
            _ => Err("Memory: a size such as 24 GB or 512 MiB.".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::{BenchLimits, BenchPatch};

    fn catalog() -> BenchCatalog {
        let words = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
        let config = |id: &str, applicable: &[&str], chain: &[&[&str]]| BenchConfig {
            id: id.to_owned(),
            about: String::new(),
            base: String::new(),
            default_steps: 10,
            capacity: None,
            inputs: vec![],
            applicable: words(applicable),
            combination: vec![],
            chain: chain.iter().map(|set| words(set)).collect(),
            published_only: vec![],
        };
        let patch = |id: &str| BenchPatch {
            id: id.to_owned(),
            label: id.to_owned(),
            project: String::new(),
            pr: None,
            url: None,
            about: String::new(),
            hypothesis: None,
        };
        BenchCatalog {
            configs: vec![
                config("vl", &["a", "b"], &[&["a"], &["a", "b"]]),
                config("te", &["c"], &[&["c"]]),
            ],
            patches: ["a", "b", "c"].map(patch).to_vec(),
            devices: vec![],
            limits: BenchLimits {
                rows: 9,
                steps: 100,
                recorded_steps: 12,
                most_recorded_steps: 20,
                seconds: 1,
                memory: Bytes(1),
            },
        }
    }

    fn choices(selection: &Selection) -> Vec<String> {
        let choices = selection.choices(&catalog());
        choices
            .iter()
            .map(|c| format!("{}:{}", c.config, c.patches.join("+")))
            .collect()
    }

    #[test]
    fn everything_is_each_patch_and_the_chain_once() {
        let all = Selection::everything(&catalog(), "vl");
        assert_eq!(choices(&all), ["vl:", "vl:a", "vl:b", "vl:a+b"]);
        assert_eq!(all.rows(), 4);
        assert_eq!(Selection::everything(&catalog(), "te").rows(), 2);
        assert_eq!(Selection::everything(&catalog(), "x").rows(), 0);
    }

    #[test]
    fn a_tick_brings_its_baseline_and_a_chain_leaves_its_patches() {
        let catalog = catalog();
        let [vl, te] = &catalog.configs[..] else {
            panic!();
        };
        let mut ticked = Selection::default();
        ticked.set(&Line::Patch("c".to_owned()), te, true);
        ticked.set(&Line::Patch("c".to_owned()), vl, true);
        assert_eq!(choices(&ticked), ["te:", "te:c"], "c does not apply to vl");
        ticked.set(&Line::Chain, vl, true);
        assert!(ticked.has(&Line::Chain, vl) && ticked.has(&Line::Patch("a".to_owned()), vl));
        ticked.set(&Line::Chain, vl, false);
        assert!(!ticked.has(&Line::Chain, vl) && ticked.has(&Line::Patch("a".to_owned()), vl));
        ticked.set_config(&catalog, te, false);
        assert_eq!(choices(&ticked), ["vl:", "vl:a"]);
    }

    #[test]
    fn a_field_that_is_wrong_is_named() {
        let catalog = catalog();
        let check = |settings: Settings, expected: Result<(), &str>| {
            let made = request(&Selection::default(), &settings, &catalog).map(drop);
            assert_eq!(made, expected.map_err(str::to_owned), "{settings:?}");
        };
        let with = |steps: &str, capacity: &str| Settings {
            steps: steps.to_owned(),
            capacity: capacity.to_owned(),
            ..Settings::default()
        };
        check(with("", ""), Ok(()));
        check(with("100", "23.6GB"), Ok(()));
        check(with("0", ""), Err("Steps: a whole number from 1 to 100."));
        check(
            with("", "lots"),
            Err("Memory: a size such as 24 GB or 512 MiB."),
        );
    }
}
