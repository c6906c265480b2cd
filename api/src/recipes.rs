//! What to do first: commands that record a snapshot and send it to this server.

use crate::projects::HEADER;
use crate::runs::Access;

/// Records and writes a snapshot.
pub const RECORD: &str = "\
torch.cuda.memory._record_memory_history(max_entries=1_000_000)
train(steps=10)
torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")";

/// A command for a shell that uploads to the project of this page.
pub fn curl_line(origin: &str, access: Access, project: Option<&str>) -> String {
    let token = match access {
        Access::Open => "",
        Access::Granted | Access::TokenNeeded => "-H \"Authorization: Bearer $TIDEMARK_TOKEN\" ",
    };
    // On lines of their own, to be seen whole.
    let project = project.map(|project| format!("\\\n  -H \"{HEADER}: {project}\" \\\n  "));
    let project = project.unwrap_or_default();
    format!("curl {token}{project}-T snapshot.pickle {origin}/api/upload/")
}

/// A command that uploads with our own command line.
pub fn push_line(origin: &str, project: Option<&str>) -> String {
    let project = project.map(|project| format!(" \\\n  --project {project}"));
    let project = project.unwrap_or_default();
    format!("tidemark push snapshot.pickle --server {origin}{project}")
}

/// A program that reports its memory while it runs, with the place of the training left open. It
/// runs as it is.
pub fn live_lines(origin: &str) -> String {
    let with = format!("with Capture(\"{origin}\", live=True) as capture:");
    let lines = [
        "from tidemark_capture import Capture",
        "",
        &with,
        "    for step in range(100):",
        "        ...  # one step of the training",
        "        capture.step()",
    ];
    lines.join("\n")
}

/// A command that runs a script which reports.
pub fn live_line(origin: &str) -> String {
    format!("python -m tidemark_capture --live --server {origin} train.py")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_name_the_server_that_serves_them() {
        let origin = "http://127.0.0.1:7878";
        // curl appends the file's name only to an address that ends with a slash.
        let curl = curl_line(origin, Access::Open, None);
        assert_eq!(
            curl,
            "curl -T snapshot.pickle http://127.0.0.1:7878/api/upload/"
        );
        let granted = curl_line(origin, Access::Granted, Some("vision"));
        assert!(granted.contains("Bearer $TIDEMARK_TOKEN"), "{granted}");
        assert!(
            granted.contains("\"tidemark-project: vision\" \\\n  -T"),
            "{granted}"
        );
        assert!(push_line(origin, None).ends_with(origin));
        assert!(push_line(origin, Some("vision")).ends_with(" --project vision"));
        assert_eq!(RECORD.lines().count(), 3);
        assert_eq!(
            live_lines(origin).lines().collect::<Vec<_>>(),
            [
                "from tidemark_capture import Capture",
                "",
                "with Capture(\"http://127.0.0.1:7878\", live=True) as capture:",
                "    for step in range(100):",
                "        ...  # one step of the training",
                "        capture.step()",
            ]
        );
        assert!(live_line(origin).contains(origin));
    }
}
