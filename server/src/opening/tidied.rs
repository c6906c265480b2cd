//! What the audit says of the runs that a rule deleted.

use crate::projects::retention::Gone;
use api::people::AuditEntry;
use api::projects::ProjectName;
use timeline::format::plural;

/// Who does it, in the audit.
const SERVER: &str = "the server";

/// Most entries about what is deleted at once, so that one rule does not push everything else out
/// of the audit.
const MOST_NAMED: usize = 300;

/// One entry for each run or job. If there are very many, jobs are named first, and a last entry
/// counts the runs that are not named.
pub fn entries(mut gone: Vec<Gone>, at_ms: i64, project: Option<&ProjectName>) -> Vec<AuditEntry> {
    if gone.len() > MOST_NAMED {
        gone.sort_by_key(|thing| matches!(thing, Gone::Run(_)));
    }
    let unnamed = gone.iter().skip(MOST_NAMED).map(Gone::runs).sum::<usize>();
    let named = gone.iter().take(MOST_NAMED).map(said);
    let rest = (unnamed > 0).then(|| {
        let runs = plural(unnamed as u64, "more old run");
        ("delete_run", runs)
    });
    let entry = |(action, subject): (&str, String)| AuditEntry {
        id: 0,
        at_ms,
        who: SERVER.to_owned(),
        address: String::new(),
        action: action.to_owned(),
        subject,
        project: project.cloned(),
    };
    named.chain(rest).map(entry).collect()
}

/// The words that a request which deletes this has in the audit.
fn said(thing: &Gone) -> (&'static str, String) {
    match thing {
        Gone::Run(run) => ("delete_run", format!("{} ({})", run.name, run.run)),
        Gone::Job { job, ranks } => {
            let with = match ranks {
                1 => "its run".to_owned(),
                ranks => format!("its {ranks} runs"),
            };
            let subject = format!("{} ({}) with {with}", job.name, job.id);
            ("delete_job", subject)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::jobs::JobSummary;
    use api::projects::Going;
    use trace::units::Bytes;

    fn run(name: &str) -> Gone {
        Gone::Run(Going {
            run: format!("run_{name}").parse().unwrap(),
            name: name.to_owned(),
            file_bytes: Bytes(1),
        })
    }

    fn job(name: &str, ranks: usize) -> Gone {
        let job = JobSummary {
            id: format!("job_{name}").parse().unwrap(),
            name: name.to_owned(),
            created_ms: 1,
            n_ranks: ranks as u32,
        };
        Gone::Job { job, ranks }
    }

    fn told(gone: Vec<Gone>) -> Vec<String> {
        let entries = entries(gone, 7, None);
        assert!(entries.iter().all(|entry| entry.at_ms == 7));
        let told = entries.iter();
        told.map(|entry| format!("{} {}", entry.action, entry.subject))
            .collect()
    }

    #[test]
    fn each_run_and_job_is_named_and_of_very_many_the_jobs() {
        let few = vec![run("a"), job("x", 4), job("y", 1)];
        let expected = [
            "delete_run a (run_a)",
            "delete_job x (job_x) with its 4 runs",
            "delete_job y (job_y) with its run",
        ];
        assert_eq!(told(few), expected);
        let mut many: Vec<Gone> = (0..MOST_NAMED).map(|n| run(&format!("r{n}"))).collect();
        assert_eq!(told(many.clone()).len(), MOST_NAMED);
        many.extend([job("x", 4), run("last")]);
        let told = told(many);
        assert_eq!(told.len(), MOST_NAMED + 1);
        assert_eq!(told[0], "delete_job x (job_x) with its 4 runs");
        assert_eq!(told[1], "delete_run r0 (run_r0)");
        assert_eq!(told[MOST_NAMED], "delete_run 2 more old runs");
    }
}
