package costs

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// schema is the part of a JSON Schema that names keys.
type schema struct {
	Properties           map[string]schema
	AdditionalProperties any
	Required             []string
	OneOf                []schema
	Definitions          map[string]schema
	Enum                 []any
}

func TestTheSchemaHasTheKeysOfTheParser(t *testing.T) {
	data, err := os.ReadFile("../docs/costs.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	var zone *time.Location
	var units quota.Units
	budget := root.Definitions["budget"]
	down := schema{}
	if allowed, err := json.Marshal(root.Properties["when_ledger_down"].AdditionalProperties); err != nil || json.Unmarshal(allowed, &down) != nil {
		t.Fatal("when_ledger_down has no form")
	}
	for name, c := range map[string]struct {
		fields []strictyaml.Field
		schema schema
	}{
		"a document":       {(&document{}).fields(), root},
		"resets":           {resetFields(&zone), root.Properties["resets"]},
		"a budget":         {(&document{}).budgetFields(&quota.Budget{}), budget},
		"a window":         {windowFields(nil, nil), budget.Properties["window"].OneOf[1]},
		"when_ledger_down": {allowFields(&units), down.OneOf[1]},
	} {
		var keys, required, properties []string
		for _, field := range c.fields {
			keys = append(keys, field.Key)
			if field.Missing != "" {
				required = append(required, field.Key)
			}
		}
		for key := range c.schema.Properties {
			properties = append(properties, key)
		}
		slices.Sort(keys)
		slices.Sort(properties)
		if diff := cmp.Diff(keys, properties); diff != "" {
			t.Errorf("keys of %s: %s", name, diff)
		}
		if diff := cmp.Diff(required, c.schema.Required); diff != "" {
			t.Errorf("required keys of %s: %s", name, diff)
		}
		if c.schema.AdditionalProperties != false {
			t.Errorf("%s takes other keys", name)
		}
	}
	if apis := root.Properties["api"].Enum; len(apis) != 1 || apis[0] != apiNames()[0] {
		t.Errorf("the apis are %v", apis)
	}
}

func TestEveryRouteIsFoundAndNoPrefixOfIt(t *testing.T) {
	for _, r := range youtubeV3.routes {
		path := r.path
		if path[len(path)-1] == '/' {
			path += "x"
		}
		if found := routeOf(youtubeV3.at(path), r.verb); found == nil || *found != r {
			t.Errorf("%s %s is %v", r.verb, path, found)
		}
		if found := youtubeV3.at(path + "x/y"); len(found) > 0 {
			t.Errorf("%sx/y is %v", path, found)
		}
	}
	if methods := youtubeV3.methods(); len(methods) != 83 {
		t.Errorf("%d methods, want 83", len(methods))
	}
}
