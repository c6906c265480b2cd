//! The table of a bench as Markdown, for where people talk about the patches.

use super::bench_state::{Section, baseline, patch, set_label};
use super::explain::sentence;
use super::figures::{change, growth, level};
use super::history::chosen;
use api::bench::{Bench, BenchCatalog, BenchRow, BenchRowState, DeviceKind, shows_growth};

/// The rows that are shown, in their order. Only what was computed here: its kind stands above.
pub fn tables(bench: &Bench, catalog: &BenchCatalog, sections: &[Section]) -> String {
    let tables = sections.iter().map(|section| {
        let config = catalog.configs.iter().find(|c| c.id == section.config);
        let on = config.map_or_else(String::new, |config| format!(" on {}", config.base));
        let device = match bench.device {
            DeviceKind::Sim => "the simulated device",
            DeviceKind::Cuda => "a GPU",
        };
        let rows = section.rows.iter().filter_map(|id| {
            let row = bench.rows.iter().find(|row| row.id == *id)?;
            let cells = cells(row, baseline(bench, &row.config), catalog);
            Some(format!("| {} |\n", cells.join(" | ")))
        });
        format!(
            "### {}{on}\n\nComputed by the engine of Tidemark on {device}{}\n\n\
             | patch | PR | peak allocated | vs baseline | growth a step | status |\n\
             |---|---|--:|--:|--:|---|\n{}",
            section.config,
            chosen(bench),
            rows.collect::<String>()
        )
    });
    tables.collect::<Vec<_>>().join("\n")
}

fn cells(row: &BenchRow, baseline: Option<&BenchRow>, catalog: &BenchCatalog) -> [String; 6] {
    let known = row.patches.iter().filter_map(|id| patch(catalog, id));
    let prs = known.filter_map(|patch| {
        let (pr, url) = (patch.pr.as_ref()?, patch.url.as_ref()?);
        Some(format!("[{pr}]({url})"))
    });
    let of = row.result.as_ref();
    let base = baseline.filter(|base| base.id != row.id);
    let base = base.and_then(|base| base.result.as_ref());
    let peak = of.map(|of| level(of.peak_allocated));
    let versus = of.zip(base);
    let versus = versus.map(|(of, base)| change(base.peak_allocated, of.peak_allocated));
    let grows = of.filter(|of| shows_growth(of));
    let status = match &row.state {
        BenchRowState::Done => {
            let words = row.status.map(|status| format!("**{}**", status.word()));
            let said = sentence(row, baseline);
            let both = words.into_iter().chain(said).collect::<Vec<_>>();
            both.join(" ")
        }
        BenchRowState::Failed { reason } => format!("No result: {reason}."),
        BenchRowState::Cancelled => "cancelled".to_owned(),
        BenchRowState::Queued { .. } | BenchRowState::Running { .. } => "not done yet".to_owned(),
    };
    let none = || "–".to_owned();
    [
        set_label(catalog, &row.patches),
        prs.collect::<Vec<_>>().join(" "),
        peak.unwrap_or_else(none),
        versus.unwrap_or_else(none),
        grows.map_or_else(none, |of| growth(of.growth_per_step)),
        // What a crash said may hold any letters.
        status.replace('|', "\\|").replace('\n', " "),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::bench_state::tests::catalog;
    use super::super::explain::tests::row;
    use super::*;
    use api::bench::BenchStatus;

    #[test]
    fn a_bench_can_be_pasted_as_it_is_shown() {
        let mut catalog = catalog();
        catalog.patches[0].pr = Some("#5700".to_owned());
        catalog.patches[0].url = Some("https://h/5700".to_owned());
        let base = row(&[], BenchStatus::Baseline, 20 << 30, 103_812_000.0);
        let fix = row(&["p3-exit"], BenchStatus::RootCauseFix, 14 << 30, 0.0);
        let mut failed = row(&["ctx"], BenchStatus::Crash, 14 << 30, 0.0);
        (failed.result, failed.status) = (None, None);
        let reason = "a | b".to_owned();
        failed.state = BenchRowState::Failed { reason };
        let section = Section {
            config: "vl".to_owned(),
            rows: [&fix, &base, &failed].map(|row| row.id.clone()).to_vec(),
        };
        let bench = Bench {
            id: "ben_a".parse().unwrap(),
            created_ms: 0,
            device: DeviceKind::Sim,
            steps: Some(100),
            capacity: None,
            recorded_steps: 12,
            rows: vec![base, fix, failed],
        };
        let expected = "\
### vl

Computed by the engine of Tidemark on the simulated device · 100 steps

| patch | PR | peak allocated | vs baseline | growth a step | status |
|---|---|--:|--:|--:|---|
| P3 | [#5700](https://h/5700) | 14.000 GiB | −6.000 GiB | 0 | **ROOT CAUSE FIX** \
Takes away 100 % of the growth; what is left is flat. |
| baseline |  | 20.000 GiB | – | +99.003 MiB | **BASELINE** Leaves +99.003 MiB behind in \
each step. |
| ctx |  | – | – | – | No result: a \\| b. |
";
        assert_eq!(tables(&bench, &catalog, &[section]), expected);
    }
}
