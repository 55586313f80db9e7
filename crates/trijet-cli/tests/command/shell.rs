//! Completions and manual pages have every command and every option that the help shows.

use crate::workdir::Workdir;

/// The commands that the help lists.
fn commands(workdir: &Workdir) -> Vec<String> {
    let help = workdir.trijet(&["--help"]).done();
    let list = help.split("Commands:\n").nth(1).expect("the help lists the commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() > 6 && names.contains(&"map".to_owned()), "{help}");
    names
}

/// The long options of a command, without dashes.
fn options(workdir: &Workdir, command: &str) -> Vec<String> {
    let help = workdir.trijet(&[command, "--help"]).done();
    let list = help.split("Options:\n").nth(1).expect("each command has --help");
    let lines = list.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let option = |line: &str| {
        let long = line.split_once("--")?.1;
        Some(long.split(|c: char| !c.is_ascii_alphabetic() && c != '-').next()?.to_owned())
    };
    lines.filter_map(option).collect()
}

#[test]
fn completions_have_each_command_and_option() {
    let workdir = Workdir::new();
    let commands = commands(&workdir);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = workdir.trijet(&["completions", shell]).done();
        for command in &commands {
            assert!(text.contains(command.as_str()), "{shell} has no {command}");
            for option in options(&workdir, command) {
                assert!(text.contains(&option), "{shell} has no --{option} of {command}");
            }
        }
    }
    workdir.trijet(&["completions", "cmd"]).refused(2, &["cmd", "bash", "fish"]);
}

/// They once proposed the files of the folder.
#[test]
fn completions_of_a_device_are_its_names() {
    let workdir = Workdir::new();
    let bash = workdir.trijet(&["completions", "bash"]).done();
    assert_eq!(bash.matches("compgen -W \"auto host cuda:0 cuda:1\"").count(), 4, "{bash}");
    assert_eq!(bash.matches("compgen -W \"auto all host cuda:0 cuda:1\"").count(), 1, "{bash}");
    // The help names them in a sentence, with a number for any GPU.
    let help = workdir.trijet(&["map", "--help"]).done();
    assert!(help.contains("auto, cuda:N or host") && !help.contains("- cuda:1"), "{help}");
    workdir.trijet(&["man"]).refused(2, &["<FOLDER>"]);
}

#[test]
fn each_command_has_a_manual_page_with_its_options() {
    let workdir = Workdir::new();
    workdir.trijet(&["man", "pages"]).done();
    let whole = String::from_utf8(workdir.read("pages/trijet.1")).unwrap();
    for command in commands(&workdir) {
        let written = command.replace('-', "\\-");
        assert!(whole.contains(&format!("trijet\\-{written}(1)")), "{command}: {whole}");
        let page = workdir.read(&format!("pages/trijet-{command}.1"));
        let page = String::from_utf8(page).unwrap();
        for option in options(&workdir, &command) {
            let written = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(page.contains(&written), "the page of {command} has no --{option}: {page}");
        }
    }
}

/// Their lines were once filled like lines of text, with other spaces and breaks.
#[test]
fn examples_of_a_manual_page_keep_their_lines() {
    let workdir = Workdir::new();
    workdir.trijet(&["man", "pages"]).done();
    for command in ["map", "trace", "what-if", "replay", "bench"] {
        let page = workdir.read(&format!("pages/trijet-{command}.1"));
        let page = String::from_utf8(page).unwrap();
        let (_, examples) = page.split_once("\nExamples:\n.nf\n.in -2n\n").expect("its examples");
        let (examples, _) = examples.split_once(".in +2n\n").unwrap_or((examples, ""));
        assert!(examples.lines().all(|line| line.starts_with("trijet ")), "{examples}");
        // The text of a page is 7 columns from its edge.
        for code in page.split(".nf\n").skip(1).filter_map(|code| code.split(".fi\n").next()) {
            assert!(code.lines().all(|line| line.replace('\\', "").len() <= 75), "{code}");
        }
    }
}
