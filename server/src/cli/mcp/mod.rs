//! `tidemark mcp`: the tools over the standard input and output.

mod recordings;

use super::CliError;
use super::categories::OwnArgs;
use crate::mcp::{self, Agent, Answers, Page, Panicked};
use api::projects::ProjectName;
use clap::Args;
use recordings::Recordings;
use rmcp::ServiceExt;
use rmcp::model::JsonObject;
use rmcp::transport::stdio;
use std::sync::Arc;
use trace::watch::Watch;

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
    let agent = Agent(Unhurried(Arc::new(Recordings::new(
        args.server,
        (args.token, args.project),
        rules,
    ))));
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

/// Answers have no time limit here: the person who asks has started this process.
#[derive(Clone)]
struct Unhurried(Arc<Recordings>);

impl Answers for Unhurried {
    async fn answer(
        &self,
        tool: String,
        arguments: JsonObject,
    ) -> Result<Result<Page, String>, Panicked> {
        let recordings = Arc::clone(&self.0);
        // Reading takes seconds; in the meantime the client may ping.
        let work =
            move || Watch::undisturbed(|watch| mcp::call(&*recordings, watch, &tool, arguments));
        let answered = tokio::task::spawn_blocking(work).await;
        answered.map_err(|_| Panicked)
    }
}
