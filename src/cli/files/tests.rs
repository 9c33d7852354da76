use super::*;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web-1"},"status":{"startTime":"2026-01-01T00:00:00Z"}}"#;

fn from_text(file: &str, text: &str) -> Input {
    let mut input = Input::default();
    input.file(file, Ok(text.as_bytes().to_vec()));
    input
}

fn names(input: &Input) -> Vec<String> {
    let name = |object: &Object| format!("{}/{}", object.meta().namespace, object.meta().name);
    input.objects.iter().map(name).collect()
}

fn errors(input: &Input) -> Vec<String> {
    input.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_single_object_a_list_an_array_and_json_lines_are_read() {
    for text in [
        POD.to_owned(),
        format!("\u{feff}\n {POD}"),
        format!(r#"{{"apiVersion":"v1","items":[{POD}],"kind":"List","metadata":{{}}}}"#),
        format!(r#"{{"items":[{POD}]}}"#),
        format!("[{POD}]"),
        format!(r#"{{"kind":"List","items":[{{"kind":"List","items":[{POD}]}}]}}"#),
    ] {
        let input = from_text("pods.json", &text);
        assert_eq!(names(&input), ["shop/web-1"], "{text}");
        assert_eq!(errors(&input), [""; 0], "{text}");
    }
    let input = from_text("pods.jsonl", &format!("{POD}\n{POD}\r\n\n{POD}"));
    assert_eq!(input.objects.len(), 3);
}

#[test]
fn the_items_of_a_typed_list_are_of_its_kind() {
    // As `kubectl cluster-info dump` writes them.
    let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"shop","name":"web-1"}}]}"#;
    assert_eq!(names(&from_text("pods.json", list)), ["shop/web-1"]);
}

#[test]
fn several_yaml_documents_are_read() {
    let text = "\
# a comment
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web-1}
--- # the next one
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    namespace: shop
    name: web-2
    creationTimestamp: \"2026-01-01T00:00:00Z\"
- apiVersion: v1
  kind: ConfigMap
kind: List
---
";
    for text in [text.to_owned(), text.replace('\n', "\r\n")] {
        let input = from_text("pods.yaml", &text);
        assert_eq!(errors(&input), [""; 0]);
        assert_eq!(names(&input), ["shop/web-1", "shop/web-2"]);
        assert_eq!(input.unwatched, 1);
        assert_eq!(
            input.newest.map(|time| time.to_string()).as_deref(),
            Some("2026-01-01T00:00:00Z")
        );
    }
}

#[test]
fn a_document_that_is_broken_does_not_hide_the_others() {
    let yaml = "kind: Pod\nmetadata: {name: web-1}\n---\nkind: Pod\nmetadata: {name: [}\n---\nkind: Pod\nmetadata: {name: web-2}\n";
    let input = from_text("pods.yaml", yaml);
    assert_eq!(names(&input), ["/web-1", "/web-2"]);
    let [error] = &errors(&input)[..] else {
        panic!("{:?}", input.errors);
    };
    assert!(error.starts_with("pods.yaml:5:"), "{error}");
    // The parser tells a place within the document, which would contradict that.
    assert!(!error.contains(" at line "), "{error}");

    let json = format!("{POD}\n{{\"kind\": \"Pod\",\n  oops}}\n{POD}\n{POD}");
    let input = from_text("pods.json", &json);
    assert_eq!(names(&input).len(), 3);
    assert_eq!(errors(&input), ["pods.json:3:3: key must be a string"]);
}

#[test]
fn an_error_says_where_and_why() {
    for (text, error) in [
        ("", "x: holds no Kubernetes object"),
        ("# nothing\n", "x: holds no Kubernetes object"),
        (r#"{"kind":"List","items":[]}"#, ""),
        (r#"{"kind":"PodList","items":null}"#, ""),
        (
            "{\n \"kind\": \"Pod\"",
            "x:2:14: EOF while parsing an object",
        ),
        ("{}", "x:1:1: is no Kubernetes object: it has no `kind`"),
        (
            "{\"items\": [\n  {\"kind\": \"ConfigMap\"},\n  {\"name\": 1}]}",
            "x:3:3: is no Kubernetes object: it has no `kind`",
        ),
        (
            "{\"items\": [\n  7]}",
            "x:2:3: is no Kubernetes object: write it with `kubectl get -o json` or `-o yaml`",
        ),
        (
            "NAME  READY\nweb-1  1/1\n",
            "x:1: is no Kubernetes object: write it with `kubectl get -o json` or `-o yaml`",
        ),
        (
            "{\"kind\": \"List\",\n \"items\": \"none\"}",
            "x:2:16: invalid type: string \"none\", expected a sequence",
        ),
    ] {
        let input = from_text("x", text);
        assert_eq!(errors(&input).join("\n"), error, "{text}");
        assert_eq!(input.objects.len(), 0, "{text}");
    }
}

#[test]
fn an_object_with_fields_that_cannot_be_read_is_named_and_still_scanned() {
    let pod = POD.replace("\"2026-01-01T00:00:00Z\"", "7");
    let input = from_text("pods.json", &format!("{POD}\n{pod}"));
    assert_eq!(input.objects.len(), 2);
    assert_eq!(
        errors(&input),
        ["pods.json:2:1: Pod/shop/web-1: fields that cannot be read, and count as absent: 1"]
    );
}

#[test]
fn what_is_no_text_is_an_error() {
    let mut input = Input::default();
    input.file("a", Ok(vec![0xff, 0xfe, b'{', 0]));
    input.file("b", Ok(vec![b'{', 0x80]));
    let errors = errors(&input);
    assert!(
        errors[0].starts_with("a: is not UTF-8, but UTF-16"),
        "{errors:?}"
    );
    assert_eq!(errors[1], "b: is not UTF-8");
}

#[test]
fn a_folder_is_read_through_and_through() {
    let dump = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dump.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let pod = |name: &str| POD.replace("web-1", name);
    write("shop/pods.json", &pod("a"));
    write("shop/web-1/logs.txt", "{not json");
    write("z.yaml", &pod("c"));
    write(
        "shop/services.json",
        r#"{"kind":"ServiceList","apiVersion":"v1","items":[{}]}"#,
    );
    write("shop/broken.json", "{");
    write("shop/sub/pods.ndjson", &pod("b"));
    let input = read(&[dump.path().to_owned(), dump.path().join("missing.json")]);
    assert_eq!(names(&input), ["shop/a", "shop/b", "shop/c"]);
    assert_eq!(input.unwatched, 1);
    let errors = errors(&input);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("broken.json:1:1: "), "{errors:?}");
    assert!(
        errors[1].contains("missing.json: No such file"),
        "{errors:?}"
    );
}

#[test]
fn a_folder_without_a_file_of_objects_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("README.txt"), "no objects").unwrap();
    let errors = errors(&read(&[folder.path().to_owned()]));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains(": holds no file that ends in .json"));
}

#[test]
fn of_a_field_that_occurs_twice_the_last_counts() {
    for text in [
        r#"{"kind": "Pod", "metadata": {"name": "a", "name": "b"}}"#,
        "kind: Pod\nmetadata: {name: a, name: b}\n",
    ] {
        let input = from_text("x", text);
        assert_eq!(errors(&input), [""; 0], "{text}");
        assert_eq!(names(&input), ["/b"], "{text}");
    }
}

#[test]
fn an_error_is_a_record_in_json() {
    let input = from_text("x.json", "{\n}");
    insta::assert_json_snapshot!(input.errors, @r#"
    [
      {
        "file": "x.json",
        "line": 1,
        "column": 1,
        "reason": "is no Kubernetes object: it has no `kind`"
      }
    ]
    "#);
}
