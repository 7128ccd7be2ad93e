package costs_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/ration-dev/ration/costs"
)

const answersBase = "version: 1\naccount: a\nhosts: [api.acme.example]\nroutes: {\"GET /v1/{path...}\": read}\n" +
	"costs: {read: 1}\nbudgets: [{name: hour, limit: 100, window: 1h}]\n"

// TestRulesOfTheAnswersPageParse: each example of docs/answers.md is valid.
func TestRulesOfTheAnswersPageParse(t *testing.T) {
	data, err := os.ReadFile("../docs/answers.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(data), -1)
	rules := 0
	for _, example := range examples {
		table, err := costs.Parse("costs.yaml", []byte(answersBase+example[1]))
		if err != nil {
			t.Errorf("%s\n%v", example[1], err)
			continue
		}
		rules += len(table.Upstreams()[0].Answers)
	}
	if len(examples) < 2 || rules < 8 {
		t.Errorf("%d examples with %d rules", len(examples), rules)
	}
}

// TestMistakesInRulesHaveAPlace: what is wrong with a rule is said where it is
// written, with what to write instead.
func TestMistakesInRulesHaveAPlace(t *testing.T) {
	mistaken(t, answersBase+"answers: [", map[string]string{
		`{when: {status: 429}}`:                    `7:11: a rule without stop, cost, limits or counts says nothing`,
		`{stop: busy}`:                             `7:11: missing key "when"`,
		`{when: {status: 42}, stop: busy}`:         `7:27: "42" is not a status: write 429, 4xx or 400-499`,
		`{when: {}, stop: stoped}`:                 `7:28: unknown stop "stoped": write one of spent`,
		`{when: {}, stop: {window: fortnight}}`:    `7:37: "fortnight" is not a window`,
		`{when: {}, stop: {until: {day: Berlin}}}`: `7:42: day is "Berlin": write the IANA name of a zone`,
		`{when: {}, cost: {header: X, body: y}}`:   `7:28: a value is in one place`,
		`{when: {}, limits: {window: day}}`:        `7:30: a limit without left, used or pair says nothing`,
		`{when: {heder: {A: b}}, stop: busy}`:      `7:19: unknown key "heder": write header`,

		`{when: {}, stop: {until: {header: X, in: parsecs}}}`: `7:52: unknown unit "parsecs"`,
		`{when: {}, stop: {scope: tenant}}`:                   `unknown scope "tenant": write one of account`,
		`{when: {header: {X Y: z}}, stop: busy}`:              `7:28: "X Y" is not the name of a header`,
		`{when: {}, cost: {header: "X-Cost:"}}`:               `7:37: "X-Cost:" is not the name of a header`,
		`{when: {method: raed}, stop: busy}`:                  `7:27: unknown method "raed": write read`,
		`{when: {}, stop: {budgets: [hour, dya]}}`: `7:45: unknown budget "dya": write one of ` +
			`hour`,
		`{when: {}, limits: {used: {header: X}}}`:                       `7:30: used without limit`,
		`{when: {}, limits: {left: {header: X}}}`:                       `7:30: left alone does not say of what`,
		`{when: {}, limits: [{budget: huor, left: {header: X}}]}`:       `7:40: unknown budget "huor": write hour`,
		`{when: {body: {a.*.b: "*x"}}, cost: {body: c}, counts: maybe}`: `is not a switch: write true or false`,
	}, "]")
}
