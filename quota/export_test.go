package quota

// Record exports record, which only a Transport calls.
var Record = (*Guard).record

// ChargeSets charges nothing, and returns how many classes of calls are known
// when that of a call is.
func (g *Guard) ChargeSets(call Call) int {
	g.chargesFor(&call)
	return len(*g.chargeSets.byClass.Load()) + len(g.chargeSets.recent)
}
