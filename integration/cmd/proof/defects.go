package main

import "strings"

// defect is a defect of Penstock that was found, and mended.
type defect struct {
	// what says what went wrong, in one sentence.
	what string
	// by says what has found it: a history with its seed, a hostile trial, or a report.
	by string
	// commit is the revision that mends it.
	commit string
	// test fails with the defect: a test, or a mutation or plan with its name.
	test kindOfTest
	name string
}

// kindOfTest says how a defect is seen again.
type kindOfTest int

// The kinds of tests.
const (
	named    kindOfTest = iota // a folder and a test in it
	mutation                   // make mutations RUN=NAME
	plan                       // a plan that failed once
)

// again is the command with which the defect is seen again.
func (d *defect) again() string {
	switch d.test {
	case mutation:
		return "`make mutations RUN='" + d.name + "'`"
	case plan:
		return "`go test -tags simulation -ldflags=-checklinkname=0 ./integration/simulation -run 'TestPlansThatFailedOnce/" + d.name + "'`"
	default:
		folder, test, _ := strings.Cut(d.name, " ")
		return "`go test ./" + folder + " -run " + test + "`"
	}
}

// defects are those that were found.
var defects = []defect{
	{
		what: "An erasure left a dead letter for ever that the broker hands out after others with larger numbers.",
		by:   "history, seed 146", commit: "c94ef5fc", name: "projector/internal/operate TestEraseRemovesADeadLetterBehindManyOthers",
	},
	{
		what: "A scan of the event store that took longer than the oplog reaches back ended the publisher while events were deleted, because it took a batch of deletes for the end of the stream.",
		by:   "a second reading", commit: "16fa35b6", name: "publisher/internal/term TestScanLongerThanTheOplogEndsWhileEventsAreDeleted",
	},
	{
		what: "An erasure said that nothing was left while a dead letter behind 10,000 others, or behind 16 MiB of them, had the person's name.",
		by:   "a second reading", commit: "65e16108", name: "projector/internal/operate TestEraseRemovesADeadLetterBehindManyOthers",
	},
	{
		what: "A dead letter behind more others than can be received one by one within the lock duration could never be removed.",
		by:   "a second reading", commit: "2363c0ff", name: "projector/internal/deadletter TestRemoveOfAMessageBehindManyOthers",
	},
	{
		what: "A finished build that waited for parked aggregates failed after 20 other verifications of its projection.",
		by:   "a second reading", commit: "93627a03", name: "projector/internal/catalog TestVerificationThatIsNoLongerKeptIsRepeated",
	},
	{
		what: "A verification of a view failed each time if 500 of its parts contribute to documents with more than 16 MiB of keys.",
		by:   "a second reading", commit: "14f45230", name: "projector/internal/readmodel TestAbsentViewDocumentsOfLargePartsAreListed",
	},
	{
		what: "Each sweep of each projection read all events of all aggregates of other types.",
		by:   "a second reading", commit: "b13cabbb", name: "projector/internal/history TestSweepReadsNoEventsButThoseOfAbsentReadModels",
	},
	{
		what: "An aggregate with some million events stopped every sweep, if MongoDB was far away.",
		by:   "a second reading", commit: "d29be60d", name: "pkg/eventstore TestHeadsReadOneBatchACall",
	},
	{
		what: "A build of an aggregate with millions of events kept neither to PENSTOCK_REFOLD_RATE nor to the rests for live events.",
		by:   "a second reading", commit: "fde33214", name: "projector/internal/history TestPagesOfALongHistoryCountForTheRate",
	},
	{
		what: "While a build waited for parked aggregates, for days perhaps, every pod read the whole catalog ten times a second.",
		by:   "a second reading", commit: "10e84be6", name: "projector/internal/catalog TestCatalogIsReadOftenOnlyAroundAPromotion",
	},
	{
		what: "Many parked aggregates of a retired projection, which nobody resumes, made each search for others slow.",
		by:   "a second reading", commit: "a9b0979f", name: "projector/internal/park TestClaimReadsOnlyServedGenerations",
	},
	{
		what: "After 20 sweeps that failed, the time up to which a projection is verified was gone, and its alert went quiet.",
		by:   "a second reading", commit: "1f963cf6", name: "projector/internal/job TestLastJobThatIsDoneIsKept",
	},
	{
		what: "A request for /applied with a timeout of 2 s was answered after minutes while MongoDB hung and thousands of others waited.",
		by:   "a second reading", commit: "43c224df", name: "projector/internal/query TestSilentStoreIsWaitedForOnce",
	},
	{
		what: "A load of many absent read models of a collection with large documents panicked, so a verification ended one projector after the other.",
		by:   "a second reading", commit: "a2001b08", name: "projector/internal/readmodel TestManyAbsentDocumentsOfALargeCollectionAreLoaded",
	},
	{
		what: "A check that asked MongoDB while the client was being closed kept a core busy until its time limit.",
		by:   "history", commit: "0b725182", name: "pkg/health TestEndWaitsForTheChecksThatRun",
	},
	{
		what: "An erasure left watermarks of former generations, with the parts of views, which a backup of the read models had brought back.",
		by:   "history, seed 1268", commit: "730dd5d4", name: "projector/internal/operate TestEraseLeavesNoCopy",
	},
	{
		what: "A read model that the server refused to read made others unavailable, whose reads were in the same request, and they were parked for minutes.",
		by:   "history, seed 13", commit: "8e6a3890", name: "projector/internal/readmodel TestReadModelThatCannotBeReadHidesNoOther",
	},
	{
		what: "After the server's clock was set back while a sweep ran, no sweep of the projection ran any more.",
		by:   "history, seed 13", commit: "05c18531", name: "projector/internal/history TestSweepsGoOnAfterTheClockWasSetBack",
	},
	{
		what: "After a restore of the state database, a build whose collection was gone wrote into a new one of the same name, and another build waited for ever.",
		by:   "history, seed 12", commit: "616d71f3", name: "projector/internal/catalog TestBuildWithoutItsCollectionFails",
	},
	{
		what: "Of a collection that was renamed under a backlog, events that had left the memory never reached the topic.",
		by:   "hostile trial", commit: "91d2f8ac", test: mutation, name: "a term ends with its collection before everything of it is published",
	},
	{
		what: "If the read models were restored and the state database was not, an aggregate that had been parked since the backup stayed behind for ever.",
		by:   "history, seed 7346", commit: "c24d902e", test: plan, name: "sweep-leaves-restored-read-models-of-parked-aggregates-behind",
	},
	{
		what: "The checkpoint went back with the first change after a scan.",
		by:   "history, seed 6204", commit: "877ad7f4", name: "publisher/internal/term TestStreamAfterAScanHasTheTimeOfItsToken",
	},
	{
		what: "An event between the two repairs of a build reached only the live generation, and a promotion took it back from readers; no live generation is repaired any more that a build can replace.",
		by:   "history, seed 63, in one of four runs", commit: "79554faf", name: "projector/internal/history TestRepairEndsWithItsGeneration",
	},
	{
		what: "With an operator's clock ahead of the server, a retry of a parked aggregate came late, and each repetition put it off again.",
		by:   "history, seed 7", commit: "63e14b76", name: "projector/internal/park TestRetryIsDueByTheServersClock",
	},
	{
		what: "A pod that a promotion does not wait for changed a part of a view under the old name, and the change was missing in the new document until the next repair.",
		by:   "history, seed 43", commit: "abe9afe8", test: mutation, name: "a part is changed under the name that a promotion has taken away",
	},
	{
		what: "A first event that came again after a rollout was folded into the part of the former generation, and the write panicked.",
		by:   "history, seed 241", commit: "5abd3770", test: mutation, name: "a session uses what it has kept for a former generation",
	},
	{
		what: "A repair that had waited for the grace period wrote a document of a generation that was replaced meanwhile.",
		by:   "history, seed 1105", commit: "9817a47b", test: mutation, name: "a repair writes a document of a generation that was replaced meanwhile",
	},
	{
		what: "A build that was verified while the topic delivered nothing failed after its repair, and stayed so.",
		by:   "history", commit: "fd416b58", name: "projector/internal/catalog TestGenerationThatWasHeldBackIsVerifiedAgain",
	},
	{
		what: "A sweep parked an aggregate because a promotion had paused its projection.",
		by:   "history, seed 105, in 3 of 100 runs", commit: "0e30d2a1", name: "projector/internal/engine TestResumeParksNothingForAPromotion",
	},
	{
		what: "Requests that waited for MongoDB while their client was closed kept a processor busy until they timed out.",
		by:   "history, seed 140", commit: "5f2f3c33", test: plan, name: "requests-outlive-their-client-in-a-busy-loop",
	},
	{
		what: "A client that was closed with a deadline waited in a busy loop.",
		by:   "history", commit: "c226b0c6", test: plan, name: "disconnect-with-a-deadline-waits-in-a-busy-loop",
	},
	{
		what: "A broker that answers at once without a session was asked thousands of times a second.",
		by:   "history", commit: "c226b0c6", test: plan, name: "broker-that-does-not-wait-is-asked-thousands-of-times",
	},
	{
		what: "A coordinator that took a promotion over did not look for documents that an application had inserted meanwhile, and deleted them.",
		by:   "history, seed 221", commit: "5534bf8b", name: "projector/internal/catalog TestPromotionThatWasTakenOverDeletesNoDocumentOfAnApplication",
	},
	{
		what: "An erasure left ids of aggregates in the bounds of a range that had outlived its job.",
		by:   "a second reading", commit: "0a08844a", name: "projector/internal/operate TestEraseLeavesNoCopy",
	},
	{
		what: "A masked erasure said that nothing was left while a collection that a projection had left behind, or a part of a cancelled build, had the content.",
		by:   "a second reading", commit: "dfb02d34", name: "projector/internal/operate TestEraseNamesCopiesOfAbandonedGenerations",
	},
	{
		what: "The forecast of a rollout promised a build of a definition whose build an operator had cancelled.",
		by:   "a second reading", commit: "d1b435ce", name: "projector/internal/operate TestDiffSaysWhatARolloutStarts",
	},
	{
		what: "A promotion whose trial rename was refused for a while deleted a document that an application had inserted since the collection was inspected.",
		by:   "history, seed 2348", commit: "33af5995", name: "projector/internal/catalog TestPromotionThatWasRefusedDeletesNoDocumentOfAnApplication",
	},
	{
		what: "A pod whose pause for a promotion timed out wrote nothing of that projection until a restart, if the promotion was then given up.",
		by:   "a second reading", commit: "fd9d2206", name: "projector/internal/catalog TestFollowerContinuesAfterAPauseThatTimedOut",
	},
	{
		what: "A sweep that left read models behind, because a build could replace them, counted as proof that all events are in them.",
		by:   "a second reading", commit: "f2d0ef25", name: "projector/internal/history TestSweepHealsNothingBesideAGenerationThatCanReplaceIt",
	},
	{
		what: "A request to /applied that waited while its pod stopped was answered with timeout before its timeout.",
		by:   "a second reading", commit: "0ff47b01", name: "projector/internal/query TestStopAnswersWaitingRequests",
	},
	{
		what: "An erasure beside another release with another database of read models was refused.",
		by:   "a second reading", commit: "73cde296", name: "projector/internal/operate TestEraseNamesTheReadModelsOfAnotherRelease",
	},
	{
		what: "A dead letter counted as applied if another one of its aggregate's id had a type that no projection takes, or if the catalog had no projection of the subscription.",
		by:   "a second reading", commit: "c128860b", name: "projector/internal/operate TestDeadLetterIsAppliedWhenEveryReadModelHasItsEvent",
	},
	{
		what: "After the build of a projection that had been retired was cancelled, no pod wrote its live generation, and nothing said so.",
		by:   "a second reading", commit: "02cb3892", name: "projector/internal/catalog TestGiveUpEndsTheBuildAndKeepsTheLiveDefinition",
	},
	{
		what: "The alert about a publisher that falls behind never fired.",
		by:   "a second reading", commit: "7371236b", name: "integration/build TestEachAlertFiresInItsCaseAndInNoOther",
	},
	{
		what: "A generation never became live if the inspection of the collection that it replaces took a minute or more, as with some million documents.",
		by:   "a second reading", commit: "b9ce3ea8", name: "projector/internal/catalog TestLongInspectionDoesNotPreventThePromotion",
	},
	{
		what: "An expression with + or strings.quote could take gigabytes of memory before a limit noticed it.",
		by:   "a second reading", commit: "7b0c9552", name: "projector/internal/projection TestAttacksAreBounded",
	},
	{
		what: "A Decimal128 such as 1E+6144 made each sum of a view thousands of times slower.",
		by:   "a second reading", commit: "64d73a13", name: "projector/internal/fold TestSumsOfDistantDecimalsAreExact",
	},
	{
		what: "A sum of a view that was too large only between two changes of one transaction parked an aggregate that a rebuild accepts.",
		by:   "a second reading", commit: "9cd0c65a", name: "projector/internal/projection TestSumOfDecimalsNeedsOnlyThePartThatGoes",
	},
	{
		what: "The comparison of two definitions overlooked elements of a view that differ.",
		by:   "a second reading", commit: "d4102fdf", name: "projector/internal/operate TestDiffShowsViews",
	},
	{
		what: "The commands infer and init ended with a panic if two events had a document with more than 100 fields.",
		by:   "a second reading", commit: "a088a2e4", name: "projector/internal/projection/authoring TestInference",
	},
	{
		what: "While a namespace was throttled, a backlog kept a key that had failed from being sent again, and the checkpoint stood still.",
		by:   "a second reading", commit: "6baf5c39", name: "publisher/internal/publish TestFailingKeyIsSentWhileTheNamespaceIsThrottled",
	},
	{
		what: "A publisher that MongoDB or the topic had refused stayed not ready for ever once another one led.",
		by:   "a second reading", commit: "366ebec3", name: "pkg/mongox TestRefusalEndsIfTheProcessAsksNoMore",
	},
	{
		what: "A rebuild failed if an erased aggregate had new events, because its verification did not know that it was one of a build.",
		by:   "a second reading", commit: "a87db3e7", name: "projector/internal/operate TestVerificationKnowsAGenerationThatIsBuilt",
	},
	{
		what: "The sweep of a projection that was retired never ended.",
		by:   "a second reading", commit: "5830a832", name: "projector/internal/history TestSweepOfARetiredProjectionEnds",
	},
	{
		what: "A claim check whose read hung stopped the events of its session's other aggregates, and nothing said why.",
		by:   "a second reading", commit: "8c895705", name: "projector/app TestHangingClaimCheckDoesNotStopItsNeighbours",
	},
	{
		what: "In an event store with a collation, a claim check could count as missing although its event was there.",
		by:   "a second reading", commit: "b7cd92ae", name: "pkg/eventstore TestWholeReadsTheEventOfAClaimCheck",
	},
}
