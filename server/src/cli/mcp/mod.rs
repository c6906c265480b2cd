//! `tidemark mcp`: the tools over the standard input and output.

mod recordings;

use super::CliError;
use super::categories::OwnArgs;
use super::remote::Way;
use crate::limits::answering::{Caller, Refused};
use crate::limits::turns::Turns;
use crate::mcp::{self, Agent, Answers, Page, Panicked};
use api::projects::ProjectName;
use clap::Args;
use recordings::Recordings;
use rmcp::ServiceExt;
use rmcp::model::JsonObject;
use rmcp::transport::stdio;
use std::sync::Arc;
use trace::watch::{Stopped, Watch};

const EXAMPLES: &str = "\
Examples:
  claude mcp add tidemark -- tidemark mcp
  tidemark mcp --server http://127.0.0.1:7878      runs of a dashboard as well as files

As a client's configuration has it:
  {\"mcpServers\": {\"tidemark\": {\"command\": \"tidemark\", \"args\": [\"mcp\"]}}}

It reads what the user who starts it may read. Paths are relative to the folder that it is started
in. The token of a dashboard comes from TIDEMARK_TOKEN.";

/// Options of `tidemark mcp`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct McpArgs {
    /// A dashboard, whose runs can then be asked about by id, link, name or labels
    #[arg(long, value_name = "URL", env = "TIDEMARK_SERVER")]
    server: Option<String>,
    /// The project, where the dashboard has several and the token is not of one
    #[arg(long, value_name = "NAME", env = "TIDEMARK_PROJECT")]
    project: Option<ProjectName>,
    /// Its access token; prefer the variable, since others can read command lines
    #[arg(long, env = "TIDEMARK_TOKEN", hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    own: OwnArgs,
}

/// Answers until the client hangs up.
///
/// # Errors
/// When the client does not speak the protocol.
pub fn mcp(args: McpArgs) -> Result<(), CliError> {
    let rules = args.own.rules()?;
    super::serve::start_logging(super::serve::LogFormat::Text);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| failed("start", &error))?;
    if let Some(server) = &args.server {
        args.way.check(server, args.token.as_deref())?;
    }
    let recordings = Recordings::new(args.server, args.token, args.project, rules);
    let agent = Agent(Unhurried::of(recordings));
    runtime.block_on(async {
        let running = agent.serve(stdio()).await;
        let running = running.map_err(|error| failed("greet the client", &error))?;
        let ended = running.waiting().await;
        ended.map_err(|error| failed("serve the client", &error))
    })?;
    // A pending read of the standard input cannot be cancelled, so the runtime does not wait for
    // it.
    runtime.shutdown_background();
    Ok(())
}

fn failed(what: &str, error: &impl std::fmt::Display) -> CliError {
    CliError::Failed(format!("cannot {what}: {error}"))
}

/// Answers have no time limit here: the person who asks has started this process. But a client may
/// ask about many recordings at once, and each takes memory; so one question is answered after the
/// other.
#[derive(Clone)]
struct Unhurried {
    recordings: Arc<Recordings>,
    turns: Turns,
}

impl Unhurried {
    fn of(recordings: Recordings) -> Unhurried {
        Unhurried {
            recordings: Arc::new(recordings),
            turns: Turns::new(1),
        }
    }
}

impl Answers for Unhurried {
    async fn answer(
        &self,
        tool: String,
        arguments: JsonObject,
    ) -> Result<Result<Page, String>, Panicked> {
        let turn = self.turns.take().await;
        let recordings = Arc::clone(&self.recordings);
        // When the client takes the question back, the work ends.
        let (_caller, presence) = Caller::waits();
        // Reading takes seconds; in the meantime the client may ping.
        let work = move || {
            let _turn = turn;
            let go_on = |_| !presence.is_over();
            let answered = mcp::call(&*recordings, Watch::new(&go_on), &tool, arguments);
            answered.unwrap_or_else(|Stopped| Err(Refused::NobodyWaits.to_string()))
        };
        let answered = tokio::task::spawn_blocking(work).await;
        answered.map_err(|_| Panicked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use trace::naming::Rules;

    #[tokio::test]
    async fn questions_are_answered_one_after_the_other() {
        let unhurried = Unhurried::of(Recordings::new(None, None, None, Rules::default()));
        let ask = || Box::pin(unhurried.answer(mcp::RUNS.to_owned(), JsonObject::new()));
        let first = unhurried.turns.take_now().expect("nobody asks yet");
        let (mut second, mut third) = (ask(), ask());
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        assert_eq!(unhurried.turns.queue().waiting, 2);
        // Who goes does not keep the place.
        drop(second);
        assert_eq!(unhurried.turns.queue().waiting, 1);
        drop(first);
        let Ok(Err(why)) = third.await else {
            panic!("no dashboard is known, and it is told that one is");
        };
        assert!(why.contains("--server URL"), "{why}");
        assert!(
            unhurried.turns.take_now().is_some(),
            "the turn was given back"
        );
    }
}
