//! The rules of the style sheets: each class belongs to one sheet, every class is styled and used,
//! and nothing is shown only under a pointer. The reason: a class of the list's rows once had the
//! same name as a class on two pages, and hid their most important buttons.
//!
//! This test scans text, like `tidy`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tests::workspace_root;

/// Sheets of parts that other sheets may place: these may set position and size of such a part.
const SHARED: [&str; 2] = ["base", "controls"];

/// Sheets that may style elements wherever they are.
const WHOLE_PAGE: [&str; 2] = ["base", "tokens"];

/// Properties that may change under a pointer: they change only the look of something that is
/// visible anyway.
const MAY_HOVER: [&str; 9] = [
    "background",
    "border-color",
    "border-left-color",
    "box-shadow",
    "color",
    "cursor",
    "fill",
    "stroke",
    "text-decoration",
];

/// One selector of one rule.
struct Rule {
    /// The sheet's name, without the ending.
    sheet: String,
    selector: String,
    properties: Vec<String>,
}

/// A compound: the part of a selector between two blanks.
type Compound = Vec<String>;

#[test]
fn styles_belong_to_one_sheet() {
    let rules = rules();
    assert!(rules.len() > 500, "the walk found too little");
    let mut found = misplaced(&rules);
    found.extend(idle(&rules, &words_in_strings(&front_end())));
    found.extend(unstyled(&rules, &classes_given(&front_end())));
    found.extend(hidden_until_hover(&rules));
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// What is fixed to the screen lies over the text of every printed sheet, and covers it.
#[test]
fn what_is_fixed_to_the_screen_is_not_printed() {
    let mut fixed = 0;
    for entry in fs::read_dir(workspace_root().join("web/style")).unwrap() {
        let text = without_comments(&fs::read_to_string(entry.unwrap().path()).unwrap());
        let (screen, print) = text.split_once("@media print").unwrap_or((&text, ""));
        let rules = screen.split('}').filter_map(|rule| rule.split_once('{'));
        for (selector, _) in rules.filter(|(_, body)| body.contains("position: fixed")) {
            fixed += 1;
            let selector = selector.trim();
            assert!(print.contains(selector), "`{selector}` is printed");
        }
    }
    assert!(fixed > 3, "the walk found too little");
}

/// The dark look is written twice, for the system's choice and for a person's: both are the same.
#[test]
fn the_dark_look_is_the_same_wherever_it_is_chosen() {
    let path = workspace_root().join("web/style/tokens.css");
    let text = without_comments(&fs::read_to_string(path).unwrap());
    let look = |selector: &str| -> Vec<String> {
        let (_, body) = text.split_once(selector).expect("the look");
        let (body, _) = body.split_once('}').expect("its end");
        body.split(';').map(|line| line.trim().to_owned()).collect()
    };
    let system = look(":root:not([data-theme=\"light\"]) {");
    assert!(system.len() > 40, "the walk found too little");
    assert_eq!(system, look(":root[data-theme=\"dark\"] {"));
}

// ---------------------------------------------------------------------------------------- reading

fn rules() -> Vec<Rule> {
    let dir = workspace_root().join("web/style");
    let mut rules = Vec::new();
    let mut paths: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        let sheet = path.file_stem().unwrap().to_string_lossy();
        rules.extend(rules_of(&sheet, &fs::read_to_string(&path).unwrap()));
    }
    rules
}

/// The rules of a sheet, including those in `@media`, without the steps of `@keyframes`.
fn rules_of(sheet: &str, text: &str) -> Vec<Rule> {
    let text = without_comments(text);
    let mut rules = Vec::new();
    let mut rest = text.as_str();
    let mut in_keyframes = false;
    while let Some(at) = rest.find(['{', '}']) {
        let head = rest[..at].rsplit(';').next().unwrap_or_default().trim();
        let closes = rest[at..].starts_with('}');
        rest = &rest[at + 1..];
        match head {
            _ if closes => in_keyframes = false,
            _ if head.starts_with("@keyframes") => in_keyframes = true,
            _ if head.starts_with('@') => {}
            _ => {
                let (body, after) = rest.split_once('}').unwrap_or((rest, ""));
                let properties = body.split(';').filter_map(|line| line.split_once(':'));
                let properties: Vec<String> =
                    properties.map(|(name, _)| name.trim().to_owned()).collect();
                rest = after;
                let selectors = split_outside(head, |c| c == ',');
                let selectors = selectors.iter().filter(|_| !in_keyframes);
                rules.extend(selectors.map(|selector| Rule {
                    sheet: sheet.to_owned(),
                    selector: selector.split_whitespace().collect::<Vec<_>>().join(" "),
                    properties: properties.clone(),
                }));
            }
        }
    }
    rules
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once("*/").map_or("", |(_, after)| after));
    rest.fold(first, |all, part| all + part)
}

/// Splits `text` where `is_end` holds, except inside brackets.
fn split_outside(text: &str, is_end: impl Fn(char) -> bool) -> Vec<String> {
    let mut depth = 0;
    let parts = text.split(|c| {
        depth += i32::from(c == '(' || c == '[') - i32::from(c == ')' || c == ']');
        depth == 0 && is_end(c)
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// The classes of each compound, without those in `:has(…)` and `:not(…)`, which are conditions.
fn compounds(selector: &str) -> Vec<Compound> {
    let compounds = split_outside(selector, |c| matches!(c, ' ' | '>' | '+' | '~'));
    let own = |compound: &String| compound.split('(').next().map(named).map(Iterator::collect);
    compounds
        .iter()
        .map(|compound| own(compound).unwrap_or_default())
        .collect()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '-' || c == '_'
}

/// The sources of the front end.
fn front_end() -> Vec<String> {
    let mut texts = Vec::new();
    let root = workspace_root();
    let plain = ["account", "trends", "labels", "categories", "live", "views"]
        .map(|name| format!("server/src/http/{name}"));
    let shown = ["web/src", "presentation/src", "timeline/src"].map(str::to_owned);
    for dir in shown.into_iter().chain(plain) {
        collect(&root.join(dir), &mut texts);
    }
    texts.push(fs::read_to_string(root.join("server/src/http/shell.rs")).unwrap());
    texts.push(fs::read_to_string(root.join("web/index.html")).unwrap());
    texts
}

fn collect(dir: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, into),
            false => into.push(fs::read_to_string(&path).unwrap()),
        }
    }
}

/// Every word of every string, and every name after `class:`.
fn words_in_strings(texts: &[String]) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for text in texts {
        for part in text.split('"').skip(1) {
            let names = part.split(|c| !is_name(c)).filter(|name| !name.is_empty());
            words.extend(names.map(str::to_owned));
            // A string with blanks may become the name of a class with hyphens.
            words.insert(part.replace(' ', "-"));
        }
        words.extend(after_class_colon(text));
    }
    words
}

fn after_class_colon(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split("class:").skip(1);
    let names = parts.map(|part| part.split(|c| !is_name(c)).next().unwrap_or_default());
    names.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Every class that the code names literally for an element.
fn classes_given(texts: &[String]) -> BTreeSet<String> {
    let mut classes = BTreeSet::new();
    for text in texts {
        for part in text.split("class=\"").skip(1) {
            let names = part
                .split('"')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            classes.extend(names.map(str::to_owned));
        }
        classes.extend(after_class_colon(text));
    }
    classes
}

// ------------------------------------------------------------------------------------------ rules

/// A rule must begin with a class of its own sheet; no other sheet may begin a rule with that
/// class. Its other classes are from the same sheet, or are shared classes that the rule places. A
/// class that only narrows another one (`.tab.shown`) is a state and may have any name.
fn misplaced(rules: &[Rule]) -> Vec<String> {
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for rule in rules {
        let leader = compounds(&rule.selector).into_iter().flatten().next();
        let Some(leader) = leader else {
            if !WHOLE_PAGE.contains(&rule.sheet.as_str()) {
                found.push(format!(
                    "{}.css: `{}` names no class",
                    rule.sheet, rule.selector
                ));
            }
            continue;
        };
        let owner = *owners.entry(leader.clone()).or_insert(&rule.sheet);
        if owner != rule.sheet {
            let (sheet, selector) = (&rule.sheet, &rule.selector);
            found.push(format!(
                "{sheet}.css: `{selector}` begins with a class of {owner}.css"
            ));
        }
    }
    for rule in rules {
        for compound in compounds(&rule.selector) {
            let Some(class) = compound.first() else {
                continue;
            };
            let owner = owners.get(class).copied();
            let is_own = owner.is_none_or(|owner| owner == rule.sheet || SHARED.contains(&owner));
            if !is_own {
                let (sheet, selector) = (&rule.sheet, &rule.selector);
                found.push(format!(
                    "{sheet}.css: `{selector}`: `.{class}` is another sheet's"
                ));
            }
        }
    }
    found
}

/// Every class that a selector names, including those in conditions.
fn named(selector: &str) -> impl Iterator<Item = String> {
    let dots = selector.split('.').skip(1);
    let names = dots.map(|part| part.split(|c| !is_name(c)).next().unwrap_or_default());
    let names = names.filter(|name| name.starts_with(char::is_alphabetic));
    names.map(str::to_owned)
}

/// Classes that no element has. For a class with a number at its end, the name without the number
/// counts, because the code adds the number.
fn idle(rules: &[Rule], words: &BTreeSet<String>) -> Vec<String> {
    let styled = rules
        .iter()
        .flat_map(|rule| named(&rule.selector).map(|class| (class, rule.sheet.as_str())));
    let styled: BTreeSet<(String, &str)> = styled.collect();
    let is_idle = |class: &str| {
        let stem = class.trim_end_matches(|c: char| c.is_ascii_digit());
        !words.contains(class) && !words.contains(stem)
    };
    let idle = styled.iter().filter(|(class, _)| is_idle(class));
    idle.map(|(class, sheet)| format!("{sheet}.css: no element is `.{class}`"))
        .collect()
}

/// Classes that no sheet styles.
fn unstyled(rules: &[Rule], given: &BTreeSet<String>) -> Vec<String> {
    let styled: BTreeSet<String> = rules
        .iter()
        .flat_map(|rule| named(&rule.selector))
        .collect();
    let unknown = given.difference(&styled);
    unknown
        .map(|class| format!("no sheet styles `.{class}`"))
        .collect()
}

/// Rules that show something only when the pointer is over it.
fn hidden_until_hover(rules: &[Rule]) -> Vec<String> {
    let hovering = rules.iter().filter(|rule| rule.selector.contains(":hover"));
    let changes = hovering.flat_map(|rule| rule.properties.iter().map(move |name| (rule, name)));
    let changes = changes.filter(|(_, name)| !MAY_HOVER.contains(&name.as_str()));
    changes
        .map(|(rule, name)| {
            let (sheet, selector) = (&rule.sheet, &rule.selector);
            format!("{sheet}.css: `{selector}` changes `{name}` under the pointer")
        })
        .collect()
}

// Checks that these rules can fail.

fn check(sheets: &[(&str, &str)], expected: &[&str]) {
    let rules: Vec<Rule> = sheets
        .iter()
        .flat_map(|(sheet, text)| rules_of(sheet, text))
        .collect();
    let mut found = misplaced(&rules);
    found.extend(hidden_until_hover(&rules));
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_class_of_two_sheets_is_found() {
    let row = (
        "runs",
        ".run-actions { opacity: 0 }\n.run:hover .run-actions { opacity: 1 }",
    );
    let page = ("share", ".run-actions { display: flex }");
    let twice = "begins with a class of runs.css";
    check(
        &[row, page],
        &[
            twice,
            "another sheet's",
            "changes `opacity` under the pointer",
        ],
    );
    check(
        &[("share", ".a {}"), ("runs", "@media print { .b .a {} }")],
        &["another sheet's"],
    );
    check(
        &[("controls", ".icon {}"), ("runs", ".search > .icon {}")],
        &[],
    );
    check(
        &[
            ("a", ".tab.shown {}"),
            ("b", ".veil.shown, .b:not(.shown) {}"),
        ],
        &[],
    );
    check(&[("runs", "/* .a */ h1:is(a, b) {}")], &["names no class"]);
    check(
        &[("base", "h1 {} @keyframes x { from { opacity: 0 } }")],
        &[],
    );
}

#[test]
fn classes_without_a_style_and_styles_without_an_element_are_found() {
    let code = vec!["<p class=\"note wide\" class:shown=x>{format!(\"run-{at} b\")}".to_owned()];
    let rules = rules_of("runs", ".note {} .run-7 {} .shown {} .gone {}");
    assert_eq!(
        idle(&rules, &words_in_strings(&code)),
        ["runs.css: no element is `.gone`"]
    );
    assert_eq!(
        unstyled(&rules, &classes_given(&code)),
        ["no sheet styles `.wide`"]
    );
}
