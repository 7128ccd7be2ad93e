package costs_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/ration-dev/ration/costs"
)

// A costs.yaml is read strictly: all its mistakes are one error, each with line
// and column. Load reads a file.
func ExampleParse() {
	table, err := costs.Parse("costs.yaml", []byte(`
version: 1
upstream: shop
account: my-shop
hosts: [api.shop.example]
routes:
  GET /{path...}: read
  POST /orders: order
costs: {read: 1, order: 10}
budgets: [{name: minute, limit: 600, window: 1m}]
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, verb := range []string{"GET", "POST", "DELETE"} {
		req, err := http.NewRequest(verb, "https://api.shop.example/orders", nil)
		if err != nil {
			log.Fatal(err)
		}
		call, err := table.Price(req) // what a quota.Transport asks
		if err != nil {
			fmt.Println(verb, "must not be sent")
			continue
		}
		fmt.Println(verb, "is", call.Method, "and costs", call.Units)
	}
	// Output:
	// GET is read and costs 1
	// POST is order and costs 10
	// DELETE must not be sent
}
