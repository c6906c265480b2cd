//! What a redacted text may contain, and what it must not.

use super::*;
use crate::quality_code;
use crate::reader::Limits;
use crate::span::Span;
use crate::trace::{Annotation, QualityNote, Step};
use crate::units::EventIdx;
use proptest::prelude::*;
use std::collections::BTreeSet;

const KEY: Key = Key::new(*b"0123456789abcdef");

/// A text with every stand-in's letters written `·`.
fn shape(text: &str) -> String {
    let parts = text.split('-').enumerate();
    let parts = parts.map(|(at, part)| {
        let word = part.get(..8).filter(|word| at > 0 && is_stand_in(word));
        word.map_or_else(|| part.to_owned(), |_| format!("·{}", &part[8..]))
    });
    parts.collect::<Vec<_>>().join("-")
}

fn is_stand_in(word: &str) -> bool {
    word.chars().all(|c| "bcdfghjkmnpqrstvwxyz".contains(c))
}

#[test]
fn files_of_frameworks_are_told_from_the_package_on() {
    let check = |file: &str, expected: &str| {
        assert_eq!(shape(&KEY.file(file)), expected, "{file}");
    };
    check("/home/alice/secret/train.py", "directory-·/file-·.py");
    check("/home/alice", "directory-·/file-·");
    check(
        "/home/alice/.venv/lib/python3.12/site-packages/torch/nn/x.py",
        "…/site-packages/torch/nn/x.py",
    );
    check(
        "/v/site-packages/apollo/torch/nn/x.py",
        "…/site-packages/directory-·/file-·.py",
    );
    check(
        "/v/site-packages/torch/../apollo.py",
        "…/site-packages/directory-·/file-·.py",
    );
    check(
        "/v/dist-packages/typing_extensions.py",
        "…/site-packages/typing_extensions.py",
    );
    check("/usr/lib/python3.12/runpy.py", "…/lib/python3.12/runpy.py");
    check("/usr/lib/python3.12/apollo.py", "directory-·/file-·.py");
    check(r"C:\Users\bob\train.py", "directory-·/file-·.py");
    check(
        r"C:\py\Lib\site-packages\torch\nn\x.py",
        "…/site-packages/torch/nn/x.py",
    );
    check("/home/alice/optim/adam.py", "directory-·/optim/file-·.py");
    check("train.py", "file-·.py");
    check("lambda:/home/alice/x", "directory-·/file-·");
    check("https://user:PW@host", "directory-·/file-·");
    check("<ipython-input-3-alice>", "<file-·>");
    check("<frozen runpy>", "<frozen runpy>");
    check("<frozen apollo>", "<file-·>");
    check("<eval_with_key>.12", "<eval_with_key>.12");
    check("<eval_with_key>.alice", "<file-·>");
    check(
        "/src/conda/python-3.12.7/Objects/call.c",
        "…/Objects/call.c",
    );
    check("RegisterCUDA_0.cpp", "RegisterCUDA_0.cpp");
    check("apollo_kernels.cpp", "file-·.cpp");
    check("??", "??");
    check("", "");
}

#[test]
fn functions_are_told_by_their_file_or_their_namespace() {
    let torch = "/v/site-packages/torch/nn/modules/linear.py";
    let check = |name: &str, file: &str, expected: &str| {
        assert_eq!(shape(&KEY.function(name, file)), expected, "{name} {file}");
    };
    let same = |name: &str, file: &str| check(name, file, name);
    same("Linear.reset", torch);
    same("outer.<locals>.<lambda>", torch);
    check("see /home/alice", torch, "function-·");
    same("forward", "/home/alice/model.py");
    check("apollo_block", "/home/alice/model.py", "function-·");
    check("apollo_block", "<string>", "function-·");
    same(
        "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)",
        "??",
    );
    same(
        "c10::TensorImpl::~TensorImpl() [clone .localalias]",
        "TensorImpl.cpp",
    );
    same(
        "at::(anonymous namespace)::create_out(c10::ArrayRef<long>)",
        "",
    );
    same("_PyEval_EvalFrameDefault", "??");
    same("::at::native::copy_", "??");
    same("std::function<void (int)>::operator()(int) const", "??");
    // From the global namespace: `::` belongs to no bracket before it.
    check("::apollo::run()", "??", "native::function-·");
    check("at::native::run(::apollo)", "??", "native::function-·");
    check(
        "apollo::Kernel::run(at::Tensor)",
        "??",
        "native::function-·",
    );
    check(
        "at::native::run<apollo::Kernel>()",
        "??",
        "native::function-·",
    );
    check("apollo_run", "??", "function-·");
}

#[test]
fn scopes_metadata_and_settings_are_told_when_they_are_plain() {
    let scope = |name: &str, expected: &str| assert_eq!(shape(&KEY.scope(name)), expected);
    for name in [
        "Optimizer.step#AdamW.step",
        "ProfilerStep#12",
        "## step 3 ##",
        "## forward ##",
        "microbatch 7",
        "nccl:all_reduce",
        "train_step_4",
    ] {
        scope(name, name);
    }
    scope("apollo forward 3", "scope-· 3");
    scope("Optimizer.step#Apollo.step", "scope-·");
    scope("call +41791234567", "scope-·");
    scope("nccl:alice", "scope-·");
    let metadata = |text: &str, expected: &str| assert_eq!(shape(&KEY.metadata(text)), expected);
    metadata("gradient", "gradient");
    metadata("float32[2, 3]", "float32[2, 3]");
    metadata("torch.bfloat16 4096x64", "torch.bfloat16 4096x64");
    metadata(r#"{"owner":"alice"}"#, "metadata-·");
    metadata("bfloat16 alice", "metadata-·");
    assert_eq!(KEY.context("0/1_2"), "0/1_2");
    assert_eq!(shape(&KEY.context("0/alice")), "context-·");
    let setting = |name: &str, value: &str, expected: (&str, &str)| {
        let (name, value) = KEY.setting(name, value);
        assert_eq!((shape(&name).as_str(), shape(&value).as_str()), expected);
    };
    setting(
        "expandable_segments",
        "True",
        ("expandable_segments", "True"),
    );
    setting(
        "roundup_power2_divisions.256",
        "0",
        ("roundup_power2_divisions.256", "0"),
    );
    let conf = "expandable_segments:True,roundup_power2_divisions:[256:1,>:4]";
    setting(
        "PYTORCH_CUDA_ALLOC_CONF",
        conf,
        ("PYTORCH_CUDA_ALLOC_CONF", conf),
    );
    setting("backend", "s3://alice", ("backend", "value-·"));
    setting("alice", "7", ("setting-·", "value-·"));
}

#[test]
fn findings_about_the_recorder_are_told() {
    let check = |code: &str, detail: &str| {
        let finding = QualityNote {
            code: code.to_owned(),
            detail: detail.to_owned(),
        };
        assert_eq!(note(&finding), finding);
    };
    check(
        "no_times",
        "events have no times (torch before 2.2, and torch_npu, write none)",
    );
    check(
        "padded_requests",
        "each request is made 32 B larger before it is rounded, as torch_npu does for Huawei's \
         devices: sizes follow from that",
    );
    check(
        "state_only",
        "the file holds one event a device: it was recorded with _record_memory_history(True), \
         enabled=\"state\", torch 2.0's default or max_entries=1, which keep no history; only the \
         state at the end is known",
    );
}

#[test]
fn our_own_findings_are_told_and_no_others() {
    let check = |code: &str, detail: &str, expected: (&str, &str)| {
        let (code, detail) = (code.to_owned(), detail.to_owned());
        let told = note(&QualityNote { code, detail });
        assert_eq!((told.code.as_str(), told.detail.as_str()), expected);
    };
    let wrapped = "the ring of events probably wrapped: 7 frees have no allocation, and there \
                   are exactly 300 events; 2 scopes ended before the first event. What was freed \
                   unseen before the first event is missing: raise max_entries";
    check("ring_wrapped", wrapped, ("ring_wrapped", wrapped));
    let wrapped = "the ring of events probably wrapped: 7 frees have no allocation; the first \
                   event completes a free whose request was not recorded; a scope ended before \
                   the first event; 2 scopes ended before the first event; there are exactly 300 \
                   events. What was freed unseen before the first event is missing: raise \
                   max_entries";
    check("ring_wrapped", wrapped, ("ring_wrapped", wrapped));
    let of_one = "device 3: 12 % of allocations have no stack";
    check("no_stacks", of_one, ("no_stacks", of_one));
    let state = "the file holds one event a device: it was recorded with enabled=\"state\" (or \
                 torch 2.0's default), which keeps no history; only the state at the end is known";
    check("state_only", state, ("state_only", state));
    let state = "the file holds one event a device: it was recorded with enabled=\"state\" (or \
                 torch 2.0's default, or max_entries=1), which keeps no history; only the state \
                 at the end is known";
    check("state_only", state, ("state_only", state));
    let of_profile = "made of a profile of torch.profiler: device 1 is the CPU, sizes are those \
                      of tensors, and what was reserved is not known";
    check(
        "made_of_profile",
        of_profile,
        ("made_of_profile", of_profile),
    );
    let left_out = "no event tells of a segment, yet 39 addresses are not those that the \
                    allocator's rules give with the segments of the end: events were left out \
                    (skip_actions), so what was reserved before the end is not known";
    check(
        "segments_not_recorded",
        left_out,
        ("segments_not_recorded", left_out),
    );
    check("no_stacks", "device alice: 3", ("no_stacks", "no stacks"));
    check(
        "unknown_keys",
        "keys that this version ignores: alice (3×)",
        (
            "unknown_keys",
            "the file has keys that this version ignores",
        ),
    );
    check(
        "unknown_actions",
        "events with actions that this version does not know, and that change nothing here: \
         alice (3×)",
        (
            "unknown_actions",
            "the file has actions that this version does not know",
        ),
    );
    let asked = "how much was asked for 1 block from before the trace is not in the file; its \
                 whole size counts as requested";
    check("requested_unknown", asked, ("requested_unknown", asked));
    check("no_times", "at /home/alice", ("no_times", "no times"));
    check("alice", "alice", ("other_finding", "other finding"));
}

#[test]
fn events_that_are_missing_are_told() {
    let left_out = [
        "no event tells of a new segment, yet 1 address is not the one that the allocator's rules \
         give with the segments of the end: events were left out (skip_actions), so what was \
         reserved before the end is not known",
        "no event tells of a new segment, yet 39 addresses are not those that the allocator's \
         rules give with the segments of the end: events were left out (skip_actions), so what \
         was reserved before the end is not known",
        "no event tells of a segment that went back, yet fewer are left: events were left out \
         (skip_actions), so what was reserved is not known",
        "no event tells of an allocation, yet there were some: events were left out \
         (skip_actions), so only the state at the end is known",
        "no event tells of a free, yet there were some: events were left out (skip_actions), so \
         only the state at the end is known",
        "no event tells when a free was completed: events were left out (skip_actions), so each \
         counts as completed when it was requested",
        "allocated reaches 30 bytes, and only 10 are reserved: events are missing, so levels are \
         not certain and leaks cannot be judged",
        "12 events contradict others: events are missing, so levels are not certain and leaks \
         cannot be judged",
    ];
    for said in left_out {
        let finding = QualityNote {
            code: quality_code::EVENTS_LEFT_OUT.to_owned(),
            detail: said.to_owned(),
        };
        assert_eq!(note(&finding), finding);
    }
}

#[test]
fn every_finding_of_the_fixtures_is_told() {
    let files: [&[u8]; 4] = [
        include_bytes!("../../../tests/fixtures/oom.pickle.zst"),
        include_bytes!("../../../tests/fixtures/streams.pickle.zst"),
        include_bytes!("../../../tests/fixtures/off_v3_moe.pickle.zst"),
        include_bytes!("../../../tests/fixtures/categories/gpt_late_forward.pickle.zst"),
    ];
    let mut looked_at = 0;
    for file in files {
        let bytes = zstd::decode_all(file).unwrap();
        let found = crate::replay::run(crate::reader::read(&bytes, Limits::default()).unwrap());
        for finding in found.quality.iter().filter(|f| f.code != "unknown_keys") {
            assert_eq!(note(finding), *finding);
            looked_at += 1;
        }
    }
    assert!(looked_at > 0, "{looked_at}");
}

#[test]
fn a_late_start_counts_as_people_do_and_is_told() {
    let check = |blocks: u64, expected: &str| {
        let event = |action: &str, at: u64| {
            format!(
                r#"{{"action": "{action}", "addr": {}, "size": 512, "stream": 0}}"#,
                at * 512
            )
        };
        let frees =
            (1..=blocks).flat_map(|at| [event("free_requested", at), event("free_completed", at)]);
        let events: Vec<String> = std::iter::once(event("alloc", 99)).chain(frees).collect();
        let file = format!(
            r#"{{"segments": [], "device_traces": [[{}]]}}"#,
            events.join(",")
        );
        let read = crate::reader::read(file.as_bytes(), Limits::default());
        let found = crate::replay::run(read.unwrap()).quality;
        let late = found.iter().find(|finding| finding.code == "late_start");
        let late = late.unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!(late.detail, expected);
        assert_eq!(note(late), *late);
    };
    check(
        1,
        "recording began after 1 block had been allocated that was freed later; where it was \
         allocated is unknown",
    );
    check(
        3,
        "recording began after 3 blocks had been allocated that were freed later; where they were \
         allocated is unknown",
    );
}

#[test]
fn every_kind_of_finding_is_known() {
    for code in quality_code::ALL {
        let finding = QualityNote {
            code: (*code).to_owned(),
            detail: String::new(),
        };
        assert_eq!(note(&finding).code, *code);
    }
    // And none is made that is not one of these.
    let sources = [
        include_str!("../replay/quality/missing.rs"),
        include_str!("../replay/quality/mod.rs"),
        include_str!("../replay/quality/ring.rs"),
        include_str!("../replay/left_out.rs"),
        include_str!("../replay/profiled.rs"),
        include_str!("../replay/pinned.rs"),
    ];
    for source in sources {
        let literals = source.split("note(").skip(1);
        let literals = literals.filter(|after| after.trim_start().starts_with('"'));
        assert_eq!(literals.count(), 0);
    }
}

fn secret() -> Trace {
    let mut trace = crate::testing::trace(
        "a alloc 2MiB at forward /home/alice/apollo/train.py:12
         b alloc 2MiB at apollo_step /home/alice/x.so:13
         c alloc 2MiB at apollo_step /v/site-packages/torch/x.py:13
         a free",
    );
    let mut name = |text: &str| trace.stacks.strings.push(text);
    let (metadata, scope) = (name("alice: apollo"), name("apollo forward"));
    let device = &mut trace.devices[0];
    device.blocks.kinds[0].metadata = Some(metadata);
    device.blocks.kinds[1].compile_context = Some(metadata);
    let events = Span::new(EventIdx(0), EventIdx(2));
    device.annotations.push(Annotation {
        name: scope,
        events,
        depth: 0,
    });
    device.steps.push(Step {
        index: 3,
        name: "apollo 3".to_owned(),
        events,
    });
    let times = device.events.time.iter();
    device.events.time = times.map(|t| Micros(t.0 + 1_700_000_000)).collect();
    let setting = ("alice".to_owned(), "s3://apollo".to_owned());
    trace.format.settings.push(setting);
    let detail = "no stacks in /home/alice/apollo/run.py".to_owned();
    let code = "no_stacks".to_owned();
    trace.quality.push(QualityNote { code, detail });
    trace
}

#[test]
fn nothing_of_a_person_is_left_and_every_index_keeps_its_meaning() {
    let mut secret = secret();
    let before = secret.clone();
    let changes = changes(&secret, KEY, 1);
    let told: BTreeSet<What> = changes.examples.iter().map(|c| c.what).collect();
    let all = [
        What::File,
        What::Function,
        What::Scope,
        What::Step,
        What::Metadata,
        What::Setting,
        What::Finding,
    ];
    assert_eq!(told, BTreeSet::from(all));
    trace(&mut secret, KEY);
    // PyTorch's own function of that name is shown, where PyTorch has it.
    let frames = secret.stacks.all_frames();
    let names: Vec<&str> = frames.iter().map(|f| secret.stacks.str(f.name)).collect();
    assert_eq!([names[0], names[2]], ["forward", "apollo_step"]);
    assert!(names[1].starts_with("function-"));
    let text = format!("{secret:?}")
        .to_lowercase()
        .replace("apollo_step", "");
    for word in ["alice", "/home", "s3://", "apollo", "17000000"] {
        assert!(!text.contains(word), "{word} is left");
    }
    assert_eq!(secret.devices[0].events.time.get(0), Micros(0));
    assert_eq!(secret.devices[0].blocks.addr, before.devices[0].blocks.addr);
    assert_eq!(secret.stacks.len(), before.stacks.len());
}

#[test]
fn another_key_gives_other_words() {
    let other = Key::new([7; 16]);
    assert_eq!(KEY.word("alice"), KEY.word("alice"));
    assert_ne!(KEY.word("alice"), KEY.word("alicf"));
    assert_ne!(KEY.word("alice"), other.word("alice"));
    assert_eq!(format!("{KEY:?}"), "Key(…)");
}

proptest! {
    /// Whatever a text is, wherever it is used and however it is wrapped: nothing that a person
    /// typed is left in the redacted trace.
    #[test]
    fn a_secret_in_any_wrapping_is_gone(
        before in r#"[ -~]{0,12}|lambda:/|#/|-I/|@/home/|s3://|C:\\|/home/"#,
        after in r#"[ -~]{0,12}|/x.py|\.py|::run\(\)|=="#,
    ) {
        let secret = "zqapollozq";
        let text = format!("{before}{secret}{after}");
        let (name, value) = KEY.setting(&text, &text);
        let finding = note(&QualityNote { code: text.clone(), detail: text.clone() });
        let told = [
            KEY.file(&text),
            KEY.function(&text, &text),
            KEY.function(&text, "/v/site-packages/torch/x.c"),
            KEY.scope(&text),
            KEY.metadata(&text),
            KEY.context(&text),
            name,
            value,
            KEY.setting("backend", &text).1,
            finding.code,
            finding.detail,
        ];
        for told in told {
            prop_assert!(!told.contains(secret), "{text}: {told}");
        }
    }
}
