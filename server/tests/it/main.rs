//! Tests of the program as it is built: its commands, its server, and what it leaves on the disk.
//! They are one binary: each binary would be linked with the whole server by itself.

mod attacks;
mod bench;
mod binary;
mod commands;
mod durable;
mod forge;
mod mcp;
mod operation;
mod serving;
