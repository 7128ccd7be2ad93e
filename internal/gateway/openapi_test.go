package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// specification is openapi.json, against which requests and answers
// are checked.
type specification struct {
	document map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

var loadSpecification = sync.OnceValues(func() (*specification, error) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	s := &specification{document: document.(map[string]any), compiler: jsonschema.NewCompiler()}
	s.compiler.AssertFormat()
	return s, s.compiler.AddResource("openapi.json", document)
})

func newSpecification(t testing.TB) *specification {
	t.Helper()
	s, err := loadSpecification()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate validates a value against the schema at a JSON pointer.
func (s *specification) validate(pointer string, value any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	schema, err := s.compiler.Compile("openapi.json#" + pointer)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func escaped(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(key)
}

// at returns what is at a JSON pointer, and its own pointer if it is
// a reference.
func (s *specification) at(pointer string) (map[string]any, string) {
	found := any(s.document)
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		parent, _ := found.(map[string]any)
		found = parent[strings.NewReplacer("~1", "/", "~0", "~", "%7B", "{", "%7D", "}").Replace(key)]
	}
	object, _ := found.(map[string]any)
	if target, ok := object["$ref"].(string); ok && !strings.Contains(pointer, "/schema") {
		return s.at(strings.TrimPrefix(target, "#"))
	}
	return object, pointer
}

// path returns the pointer of the path item of a request, or "".
func (s *specification) path(requested string) string {
	requested, _, _ = strings.Cut(requested, "?")
	if strings.HasPrefix(requested, "/to/") {
		return "/paths/" + escaped("/to/{host}/{path}")
	}
	paths, _ := s.document["paths"].(map[string]any)
	for template := range paths {
		form := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(template), "[^/]+")
		if regexp.MustCompile("^" + form + "$").MatchString(requested) {
			return "/paths/" + escaped(template)
		}
	}
	return ""
}

// check checks a request and its answer.
func (s *specification) check(req *http.Request, body string, resp *http.Response, text string) error {
	path := s.path(req.URL.RequestURI())
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if strings.HasPrefix(req.URL.Path, "/to/") &&
		(kind != "application/problem+json" || !strings.Contains(text, `"urn:ration:`)) {
		return nil // the upstream's
	}
	if resp.StatusCode < 400 {
		if err := s.checkRequest(path, req, body); err != nil {
			return fmt.Errorf("the request: %w", err)
		}
	}
	response, at := s.at(fmt.Sprintf("%s/%s/responses/%d", path, strings.ToLower(req.Method), resp.StatusCode))
	if path == "" && resp.StatusCode == http.StatusNotFound {
		response, at = s.at("/components/responses/NotFound")
	}
	if resp.StatusCode == http.StatusMethodNotAllowed {
		response, at = s.at("/components/responses/MethodNotAllowed")
	}
	if response == nil {
		return fmt.Errorf("%s %s: a status %d is not documented", req.Method, req.URL.Path, resp.StatusCode)
	}
	if err := s.checkHeaders(at, response, resp.Header); err != nil {
		return err
	}
	if content, _ := response["content"].(map[string]any); content[kind] == nil {
		return fmt.Errorf("%s %s, %d: a body of type %q is not documented", req.Method, req.URL.Path, resp.StatusCode,
			kind)
	}
	if kind == "application/x-ndjson" {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.validate(at+"/content/"+escaped(kind)+"/schema", value)
	}
	if object, ok := value.(map[string]any); ok && err == nil && kind == "application/problem+json" &&
		fmt.Sprint(object["status"]) != strconv.Itoa(resp.StatusCode) {
		err = fmt.Errorf("the problem's status is %v", object["status"])
	}
	return err
}

func (s *specification) checkRequest(path string, req *http.Request, body string) error {
	for name := range req.Header {
		if (strings.HasPrefix(name, "Ration-") || name == "Idempotency-Key") && name != "Ration-Token" &&
			!s.hasParameter(path, strings.ToLower(req.Method), name) {
			return fmt.Errorf("the header %s is not documented", name)
		}
	}
	operation := path + "/" + strings.ToLower(req.Method)
	if op, _ := s.at(operation); op == nil {
		return fmt.Errorf("%s %s is not documented", req.Method, req.URL.Path)
	} else if op["requestBody"] == nil || strings.HasPrefix(req.URL.Path, "/to/") || body == "" {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	return s.validate(operation+"/requestBody/content/application~1json/schema", value)
}

func (s *specification) hasParameter(path, verb, name string) bool {
	item, _ := s.at(path)
	operation, _ := s.at(path + "/" + verb)
	for _, owner := range []map[string]any{item, operation} {
		parameters, _ := owner["parameters"].([]any)
		for _, p := range parameters {
			parameter, _ := p.(map[string]any)
			if ref, ok := parameter["$ref"].(string); ok {
				parameter, _ = s.at(strings.TrimPrefix(ref, "#"))
			}
			if parameter["name"] == name {
				return true
			}
		}
	}
	return false
}

// checkHeaders checks those headers of an answer that are the gateway's.
func (s *specification) checkHeaders(at string, response map[string]any, header http.Header) error {
	declared, _ := response["headers"].(map[string]any)
	known, _ := s.at("/components/headers")
	for name := range known {
		values := header.Values(name)
		if declared[name] == nil {
			if len(values) > 0 {
				return fmt.Errorf("%s: the header %s is not documented there", at, name)
			}
			continue
		}
		object, pointer := s.at(at + "/headers/" + escaped(name))
		if len(values) == 0 && object["required"] == true {
			return fmt.Errorf("%s: there is no header %s", at, name)
		}
		for _, value := range values {
			if err := s.validate(pointer+"/schema", value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// TestTheOpenAPIDocumentIsWellFormed: it is one of version 3.1, its schemas
// compile, its references lead somewhere, and its examples are what they show.
func TestTheOpenAPIDocumentIsWellFormed(t *testing.T) {
	s := newSpecification(t)
	compiler := jsonschema.NewCompiler()
	meta, err := compiler.Compile("testdata/openapi-3.1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := meta.Validate(s.document); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	s.walk(t, "", s.document, seen)
	if len(seen) < 40 {
		t.Errorf("%d schemas; want those of all answers", len(seen))
	}
	var kinds []any
	problem, _ := s.at("/components/schemas/ProblemMembers/properties/type")
	kinds, _ = problem["enum"].([]any)
	sources, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range sources {
		if strings.HasSuffix(file.Name(), ".go") && !strings.HasSuffix(file.Name(), "_test.go") {
			text, err := os.ReadFile(file.Name())
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	for _, kind := range kinds {
		if name := strings.TrimPrefix(kind.(string), "urn:ration:"); !strings.Contains(code.String(), `"`+name+`"`) {
			t.Errorf("no code answers with a problem %s", name)
		}
	}
	for _, match := range regexp.MustCompile(`newProblem\([A-Za-z.]+, "([a-z-]+)"|`+
		`kind, status = "([a-z-]+)"|kind, status := "([a-z-]+)"`).FindAllStringSubmatch(code.String(), -1) {
		if name := match[1] + match[2] + match[3]; !strings.Contains(fmt.Sprint(kinds), "urn:ration:"+name) {
			t.Errorf("a problem %s is not documented", name)
		}
	}
}

// walk compiles each schema, resolves each reference and validates
// each example.
func (s *specification) walk(t *testing.T, at string, node any, seen map[string]bool) {
	switch node := node.(type) {
	case []any:
		for i, item := range node {
			s.walk(t, fmt.Sprintf("%s/%d", at, i), item, seen)
		}
	case map[string]any:
		if ref, ok := node["$ref"].(string); ok && !seen[ref] {
			if found, _ := s.at(strings.TrimPrefix(ref, "#")); found == nil {
				t.Errorf("%s: %s leads nowhere", at, ref)
			}
		}
		if node["schema"] != nil {
			seen[at] = true
			examples := []any{}
			if node["example"] != nil {
				examples = append(examples, node["example"])
			}
			named, _ := node["examples"].(map[string]any)
			for _, example := range named {
				examples = append(examples, example.(map[string]any)["value"])
			}
			for _, example := range examples {
				if err := s.validate(at+"/schema", example); err != nil {
					t.Errorf("%s: the example: %v", at, err)
				}
			}
			if err := s.validate(at+"/schema", map[string]any{}); err != nil &&
				!strings.Contains(fmt.Sprintf("%T", err), "ValidationError") {
				t.Errorf("%s: %v", at, err)
			}
		}
		for key, child := range node {
			if key != "example" && key != "examples" {
				s.walk(t, at+"/"+escaped(key), child, seen)
			}
		}
	}
}

// TestOpenAPIDocumentIsServed: it is what the gateway answers.
func TestOpenAPIDocumentIsServed(t *testing.T) {
	s := newServer(t, nil, newClient(t, table, t.TempDir(), nil))
	a := s.do("GET", "/v1/openapi.json", "")
	var served, written any
	text, err := os.ReadFile("openapi.json")
	if err != nil || json.Unmarshal(text, &written) != nil || json.Unmarshal([]byte(a.text), &served) != nil ||
		fmt.Sprint(written) != fmt.Sprint(served) {
		t.Errorf("%s, %v", a.Status, err)
	}
}
