package costs

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// schema is the part of a JSON Schema that names keys.
type schema struct {
	Properties           map[string]schema
	AdditionalProperties any
	Required             []string
	OneOf                []schema
	Definitions          map[string]schema
	Enum                 []any
	Else                 *schema
	Items                *schema
}

func readSchema(t *testing.T) (root schema) {
	t.Helper()
	data, err := os.ReadFile("../docs/costs.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestSchemaHasTheParsersKeys(t *testing.T) {
	root := readSchema(t)
	var units quota.Units
	var name, variant strictyaml.Node
	budget := root.Definitions["budget"]
	down := root.Properties["when_ledger_down"].OneOf[1].Items
	batch, lane := schema{}, schema{}
	if form, err := json.Marshal(root.Properties["lanes"].AdditionalProperties); err != nil ||
		json.Unmarshal(form, &lane) != nil {
		t.Fatal("lanes has no form")
	}
	if form, err := json.Marshal(root.Properties["batches"].AdditionalProperties); err != nil ||
		json.Unmarshal(form, &batch) != nil {
		t.Fatal("batches has no form")
	}
	without, with := &document{}, &document{preset: true}
	whole := root
	whole.Required = append(slices.Clone(root.Required), root.Else.Required...)
	wholeBudget := budget
	wholeBudget.Required = root.Else.Properties["budgets"].Items.Required
	checkKeys(t, map[string]fieldsAndSchema{
		"a document":               {without.fields(), whole},
		"a document with a preset": {with.fields(), root},
		"a preset":                 {presetFields(&name, &variant), root.Properties["preset"].OneOf[1]},
		"a credential":             {without.credentialFields(&Credential{}), root.Properties["credential"]},
		"an alert":                 {without.alertFields(&Alert{}), root.Properties["alert"]},
		"resets":                   {calendarFields(&windowSpec{}), root.Properties["resets"]},
		"a budget":                 {without.budgetFields(&budgetEntry{}), wholeBudget},
		"a budget over a preset's": {with.budgetFields(&budgetEntry{}), budget},
		"a window":                 {windowFields(&windowSpec{}), budget.Properties["window"].OneOf[1]},
		"a bucket": {bucketFields(&strictyaml.Node{}, new(time.Duration)),
			budget.Properties["window"].OneOf[1].Properties["bucket"]},
		"a lane":             {laneFields(new(int), new(bool)), lane},
		"a choice":           {(&choice{}).fields(), root.Definitions["choice"].OneOf[1]},
		"a price by a field": {(&FieldPrice{}).fields(), root.Definitions["fieldPrice"]},
		"a batch":            {batchFields(&BatchMethod{}), batch},
		"an allowance":       {allowFields(&units), root.Definitions["then"].OneOf[1]},
		"a rule":             {without.downFields(&DownRule{}, &name), *down},
	})
	answer := root.Definitions["answer"]
	checkKeys(t, map[string]fieldsAndSchema{
		"an answer":         {without.ruleFields(&feedback.Rule{}), answer},
		"what an answer is": {without.whenFields(&feedback.RuleCondition{}), answer.Properties["when"]},
		"a stop":            {without.stopFields(&feedback.Stop{}), answer.Properties["stop"].OneOf[1]},
		"a value":           {valueFields(&feedback.RuleValue{}), root.Definitions["value"]},
		"an end":            {untilFields(&feedback.RuleUntil{}), root.Definitions["until"]},
		"a limit":           {without.limitFields(&feedback.Limit{}), root.Definitions["limitOf"]},
	})
}

type fieldsAndSchema struct {
	fields []strictyaml.Field
	schema schema
}

// checkKeys compares the parser's keys with the schema's.
func checkKeys(t *testing.T, all map[string]fieldsAndSchema) {
	t.Helper()
	for name, c := range all {
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
}

func TestSchemaHasTheParsersWords(t *testing.T) {
	root := readSchema(t)
	for name, c := range map[string]struct {
		known []string
		enum  []any
	}{
		"apis":     {apiNames(), root.Properties["api"].Enum},
		"presets":  {presetNames(), root.Definitions["preset"].Enum},
		"dialects": {feedback.Names(), root.Properties["feedback"].Enum},
	} {
		var known []any
		for _, word := range c.known {
			known = append(known, word)
		}
		if diff := cmp.Diff(known, c.enum); diff != "" {
			t.Errorf("the %s: %s", name, diff)
		}
	}
}

func TestEveryRouteIsFoundAndNoPrefixOfIt(t *testing.T) {
	for _, r := range youtubeV3.routes {
		path := r.path
		if path[len(path)-1] == '/' {
			path += "x"
		}
		if found := routeOf(youtubeV3.routesAt(path), r.verb); found == nil || *found != r {
			t.Errorf("%s %s is %v", r.verb, path, found)
		}
		if found := youtubeV3.routesAt(path + "x/y"); len(found) > 0 {
			t.Errorf("%sx/y is %v", path, found)
		}
	}
	if methods := youtubeV3.methods(); len(methods) != 83 {
		t.Errorf("%d methods, want 83", len(methods))
	}
}
