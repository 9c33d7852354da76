//! Settings that cannot be meant end the program at once.

use crate::support::{Program, Tripwire};

#[tokio::test]
async fn a_shard_that_does_not_exist_ends_the_program_before_it_connects() {
    let api = Tripwire::set();
    let kubeconfig = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("kubeconfig-tripwire-{}", std::process::id()));
    let text = serde_json::json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{ "name": "test", "cluster": { "server": api.url() } }],
        "users": [{ "name": "test", "user": { "token": "none" } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "current-context": "test",
    });
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let kubeconfig_path = kubeconfig.display().to_string();

    for (total, index, at_fault, value, range) in [
        (
            "3",
            Some("3"),
            "ALERTKUBE_SHARD_INDEX",
            "3",
            Some(["0", "2"]),
        ),
        (
            "3",
            Some("-1"),
            "ALERTKUBE_SHARD_INDEX",
            "-1",
            Some(["0", "2"]),
        ),
        (
            "3",
            Some("alertkube-3"),
            "ALERTKUBE_SHARD_INDEX",
            "alertkube-3",
            Some(["0", "2"]),
        ),
        (
            "3",
            Some("one"),
            "ALERTKUBE_SHARD_INDEX",
            "one",
            Some(["0", "2"]),
        ),
        ("3", Some(""), "ALERTKUBE_SHARD_INDEX", "", Some(["0", "2"])),
        ("3", None, "ALERTKUBE_SHARD_INDEX", "", Some(["0", "2"])),
        (
            "3 replicas",
            Some("0"),
            "ALERTKUBE_SHARD_TOTAL",
            "3 replicas",
            None,
        ),
        ("", Some("0"), "ALERTKUBE_SHARD_TOTAL", "", None),
    ] {
        let mut environment = vec![
            ("KUBECONFIG", kubeconfig_path.as_str()),
            ("ALERTKUBE_SHARD_TOTAL", total),
        ];
        environment.extend(index.map(|index| ("ALERTKUBE_SHARD_INDEX", index)));
        let mut program = Program::start(&["run"], &environment);
        let status = program.wait_end().await;
        let said = program.stderr();
        let case = format!("total {total:?}, index {index:?}: {said}");
        assert_eq!(status.code(), Some(2), "{case}");
        assert!(said.contains(at_fault) && said.contains(value), "{case}");
        for end in range.into_iter().flatten() {
            assert!(said.contains(end), "{case}");
        }
        api.assert_untouched();
    }
    std::fs::remove_file(kubeconfig).unwrap();
}
