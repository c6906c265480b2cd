//! `tidemark mcp`: the questions of the command line as tools of the Model Context Protocol, over
//! the standard input and output.
//!
//! ```text
//! recordings   files that the user may read, and a dashboard's runs; the last ones are kept
//! tools        what can be asked, and with what
//! answer       an answer in pages that fit into a context window
//! ```
//!
//! An answer is text for reading and a document for programs. What goes wrong is an answer too: it
//! says what to do.

mod answer;
mod recordings;
mod tools;

use super::CliError;
use clap::Args;
use recordings::Recordings;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  claude mcp add tidemark -- tidemark mcp
  tidemark mcp --server http://127.0.0.1:7878      runs of a dashboard as well as files

As a client's configuration has it:
  {\"mcpServers\": {\"tidemark\": {\"command\": \"tidemark\", \"args\": [\"mcp\"]}}}

It reads what the user who starts it may read. Paths are relative to the folder that it is started
in. The token of a dashboard comes from TIDEMARK_TOKEN.";

/// Said to the model when it connects.
const INSTRUCTIONS: &str = "\
Tidemark explains the GPU memory of PyTorch programs from snapshots that \
torch.cuda.memory._dump_snapshot() writes. Begin with `explain`: it says what held the memory, \
what leaks, why it ran out and what would have helped. The other tools go into detail. Sizes in \
documents are bytes; steps and events count from 0. Answers come in pages: where `next` is a \
number, ask again with it as `offset`.";

/// Options of `tidemark mcp`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct McpArgs {
    /// A dashboard, whose runs can then be asked about by their ids
    #[arg(long, value_name = "URL", env = "TIDEMARK_SERVER")]
    server: Option<String>,
    /// Its access token; prefer the variable, since others can read command lines
    #[arg(
        long,
        env = "TIDEMARK_TOKEN",
        hide_env_values = true,
        requires = "server"
    )]
    token: Option<String>,
}

/// Answers until the client hangs up.
///
/// # Errors
/// When the client does not speak the protocol.
pub fn mcp(args: McpArgs) -> Result<(), CliError> {
    super::serve::start_logging();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| failed("start", &error))?;
    let agent = Agent {
        recordings: Arc::new(Recordings::new(args.server, args.token)),
    };
    runtime.block_on(async {
        let running = agent.serve(stdio()).await;
        let running = running.map_err(|error| failed("greet the client", &error))?;
        let ended = running.waiting().await;
        ended.map_err(|error| failed("serve the client", &error))
    })?;
    // A pending read of the standard input cannot be cancelled.
    runtime.shutdown_background();
    Ok(())
}

fn failed(what: &str, error: &impl std::fmt::Display) -> CliError {
    CliError::Failed(format!("cannot {what}: {error}"))
}

/// What a client talks to.
struct Agent {
    recordings: Arc<Recordings>,
}

impl ServerHandler for Agent {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("tidemark", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let recordings = Arc::clone(&self.recordings);
        let CallToolRequestParams {
            name, arguments, ..
        } = request;
        let arguments = arguments.unwrap_or_default();
        // Reading takes seconds; the client may ping meanwhile.
        let work = move || tools::call(&recordings, &name, arguments);
        let answered = tokio::task::spawn_blocking(work).await;
        let answered =
            answered.map_err(|_| ErrorData::internal_error("the tool panicked", None))?;
        let result = match answered {
            Ok(page) => page.into_result(),
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        };
        Ok(result.into())
    }
}
