// Package aggregate runs aggregation pipelines over batches of raw documents:
// $match $project $addFields $set $unset $replaceRoot $replaceWith $sort $limit
// $skip $group $count $unwind $sortByCount. Any other stage is an error that
// names it. Change streams have their own, in package changestream.
package aggregate
