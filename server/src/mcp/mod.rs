//! The questions of the command line as tools of the Model Context Protocol.
//!
//! ```text
//! library      what can be asked about; the command line and the dashboard each have theirs
//! reference    how a run of a dashboard can be called
//! tools        what can be asked, and with what
//! answer       an answer in pages that fit into a context window
//! ```
//!
//! An answer is text for people and a document for programs. An error is also an answer, and says
//! what to do. `tidemark mcp` uses its standard input and output, a dashboard [`api::routes::MCP`].

mod answer;
mod library;
mod reference;
mod tools;

pub use answer::Page;
pub use library::{Library, MOST_RUNS, Place, Recording};
pub use reference::{ENOUGH, Reference, only_one};
pub use tools::{RUNS, call, recordings_of};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

/// The text that the model gets when it connects.
const INSTRUCTIONS: &str = "\
Tidemark explains the GPU memory of PyTorch programs from snapshots that \
torch.cuda.memory._dump_snapshot() writes. Begin with `explain`: it says what held the memory, \
what leaks, why it ran out and what would have helped. The other tools go into detail; `runs` \
lists what a dashboard holds. Sizes in documents are bytes; steps and events count from 0. \
Answers come in pages: where `next` is a number, ask again with it as `offset`.";

/// The work behind a tool panicked.
pub struct Panicked;

/// Computes the answers.
pub trait Answers: Clone + Send + Sync + 'static {
    /// The answer of a tool, or why there is none and what to do.
    fn answer(
        &self,
        tool: String,
        arguments: JsonObject,
    ) -> impl Future<Output = Result<Result<Page, String>, Panicked>> + Send;
}

/// The agent that a client talks to.
#[derive(Clone)]
pub struct Agent<A>(pub A);

impl<A: Answers> ServerHandler for Agent<A> {
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
        let arguments = request.arguments.unwrap_or_default();
        let answered = self.0.answer(request.name.into_owned(), arguments).await;
        let answered =
            answered.map_err(|Panicked| ErrorData::internal_error("the tool panicked", None))?;
        let result = match answered {
            Ok(page) => page.into_result(),
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        };
        Ok(result.into())
    }
}
